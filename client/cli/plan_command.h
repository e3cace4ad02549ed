#ifndef PIPESTAGE_CLIENT_CLI_PLAN_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_PLAN_COMMAND_H_

#include <memory>

#include "client/cli/command.h"

namespace pipestage {

// `pipestage plan`: draws a schedule, or prints what each rank executes. Asks
// nobody.
std::unique_ptr<Command> MakePlanCommand();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_PLAN_COMMAND_H_
