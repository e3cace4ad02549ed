#ifndef PIPESTAGE_CLIENT_CLI_UP_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_UP_COMMAND_H_

#include <memory>

#include "client/cli/command.h"

namespace pipestage {

// `pipestage up`: a coordinator and N workers on this machine, until Ctrl-C.
std::unique_ptr<Command> MakeUpCommand();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_UP_COMMAND_H_
