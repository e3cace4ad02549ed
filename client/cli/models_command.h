#ifndef PIPESTAGE_CLIENT_CLI_MODELS_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_MODELS_COMMAND_H_

#include <memory>

#include "client/cli/command.h"

namespace pipestage {

// `pipestage models`: lists, shows, loads and unloads models.
std::unique_ptr<Command> MakeModelsCommand();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_MODELS_COMMAND_H_
