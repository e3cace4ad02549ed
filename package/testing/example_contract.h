#ifndef PIPESTAGE_PACKAGE_TESTING_EXAMPLE_CONTRACT_H_
#define PIPESTAGE_PACKAGE_TESTING_EXAMPLE_CONTRACT_H_

#include "nlohmann/json.hpp"

namespace pipestage {

// The pipeline.json of docs/formats.md: a model of two stages with a replicated
// keyword input, targets and a loss. Tests change it and see what is said.
nlohmann::json ExampleContract();

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_TESTING_EXAMPLE_CONTRACT_H_
