#ifndef PIPESTAGE_CLIENT_CLI_CLI_H_
#define PIPESTAGE_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/command.h"

namespace pipestage {

// Exit codes of the command line.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed =
    1;  // the call failed: why and what next, on err
inline constexpr int kExitUsage = 2;  // the arguments make no sense

// Runs `pipestage` with these arguments (without the program's name).
int RunCli(const std::vector<std::string>& arguments, Console& console);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_CLI_H_
