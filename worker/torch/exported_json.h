#ifndef PIPESTAGE_WORKER_TORCH_EXPORTED_JSON_H_
#define PIPESTAGE_WORKER_TORCH_EXPORTED_JSON_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "worker/torch/exported_graph.h"

namespace pipestage {

// Between the sources of :exported_graph only. These throw Malformed, or what
// the JSON library throws; exported_graph.cc catches both.

using Json = nlohmann::json;

// What is wrong with the file.
struct Malformed {
  std::string what;
};

[[noreturn]] void Fail(std::string what);

Json ParseJson(absl::string_view text);
int64_t ParseInt(const Json& json);
// Finite numbers are JSON numbers, the others text.
double ParseFloat(const Json& json);
// A union is an object with one key: which alternative it is.
std::pair<std::string, const Json*> UnionMember(const Json& json);

// `depth`: of the graph that the argument is in; blocks have graphs of their
// own.
ExportedArgument ParseArgument(const Json& json, int depth);
ExportedTensor ParseTensor(const Json& json);
ExportedSize ParseSize(const Json& json);
ExportedGraph ParseGraph(const Json& json, int depth);

// Graphs within graphs come from with-blocks; a model's nest a few deep.
inline constexpr int kMaxGraphDepth = 16;

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EXPORTED_JSON_H_
