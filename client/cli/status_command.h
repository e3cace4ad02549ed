#ifndef PIPESTAGE_CLIENT_CLI_STATUS_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_STATUS_COMMAND_H_

#include <memory>

#include "client/cli/command.h"

namespace pipestage {

// `pipestage status`: what the service is doing.
std::unique_ptr<Command> MakeStatusCommand();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_STATUS_COMMAND_H_
