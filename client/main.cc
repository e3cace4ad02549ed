#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "client/up/stop_signals.h"

int main(int argc, char** argv) {
  const char* address = std::getenv("PIPESTAGE_ADDRESS");
  pipestage::Console console{std::cout, std::cerr};
  console.err_is_terminal = isatty(STDERR_FILENO) == 1;
  console.address_from_environment = address == nullptr ? "" : address;
  console.install_stop_signals = pipestage::InstallStopSignals;
  return pipestage::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                           console);
}
