#include "worker/torch/testdata/fixtures.h"

#include <cstdlib>
#include <memory>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "tensor/safetensors.h"

namespace pipestage {
namespace {

// Relative to where Bazel starts a test.
constexpr char kPath[] = "worker/torch/testdata/fixtures.safetensors";

std::string Text(const HostTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
}

void AddAt(size_t index, const HostTensor& tensor,
           std::vector<HostTensor>& list) {
  if (list.size() <= index) list.resize(index + 1);
  list[index] = tensor;
}

void AddToRun(const std::string& kind, const std::string& name,
              const HostTensor& tensor, FixtureRun& run) {
  if (kind == "keyword") {
    run.keywords[name] = tensor;
  } else {
    AddAt(std::stoul(name), tensor, kind == "in" ? run.inputs : run.outputs);
  }
}

void Add(const std::string& name, const HostTensor& tensor,
         std::map<std::string, Fixture>& fixtures) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  Fixture& fixture = fixtures[parts[0]];
  if (parts[1] == "archive") {
    fixture.archive = Text(tensor);
  } else if (parts[1] == "refused") {
    fixture.refused = Text(tensor);
  } else if (parts[1] == "weight") {
    fixture.weights[parts[2]] = tensor;
  } else {
    const size_t run = std::stoul(parts[1]);
    if (fixture.runs.size() <= run) fixture.runs.resize(run + 1);
    AddToRun(parts[2], parts[3], tensor, fixture.runs[run]);
  }
}

std::map<std::string, Fixture> Read() {
  const auto file = MappedFile::Open(kPath);
  PIPESTAGE_CHECK(file.ok());
  const auto tensors = ParseSafetensors(
      Buffer(*file, const_cast<char*>((*file)->data()), (*file)->size()));
  PIPESTAGE_CHECK(tensors.ok());
  std::map<std::string, Fixture> fixtures;
  for (const auto& [name, tensor] : *tensors) Add(name, tensor, fixtures);
  return fixtures;
}

}  // namespace

const std::map<std::string, Fixture>& Fixtures() {
  static const auto* const fixtures =
      new std::map<std::string, Fixture>(Read());
  return *fixtures;
}

const Fixture& FixtureNamed(const std::string& name) {
  const auto it = Fixtures().find(name);
  PIPESTAGE_CHECK(it != Fixtures().end());
  return it->second;
}

}  // namespace pipestage
