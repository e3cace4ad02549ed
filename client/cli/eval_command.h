#ifndef PIPESTAGE_CLIENT_CLI_EVAL_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_EVAL_COMMAND_H_

#include <memory>

#include "client/cli/command.h"

namespace pipestage {

// `pipestage eval`: reads tensors from files, calls Eval, writes outputs,
// reports.
std::unique_ptr<Command> MakeEvalCommand();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_EVAL_COMMAND_H_
