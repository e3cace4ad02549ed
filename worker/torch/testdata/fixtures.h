#ifndef PIPESTAGE_WORKER_TORCH_TESTDATA_FIXTURES_H_
#define PIPESTAGE_WORKER_TORCH_TESTDATA_FIXTURES_H_

#include <map>
#include <string>
#include <vector>

#include "tensor/host_tensor.h"

namespace pipestage {

// What make_fixtures.py wrote.

struct FixtureRun {
  std::vector<HostTensor> inputs;
  std::map<std::string, HostTensor> keywords;
  std::vector<HostTensor> outputs;
};

struct Fixture {
  std::string archive;                        // bytes of the .pt2 file
  std::map<std::string, HostTensor> weights;  // by fully qualified name
  std::vector<FixtureRun> runs;
  std::string refused;  // what the error says, if it must not load
};

// All cases by name. Read from the test's data; ends the test if that fails.
const std::map<std::string, Fixture>& Fixtures();
const Fixture& FixtureNamed(const std::string& name);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TESTDATA_FIXTURES_H_
