// Nodes and tensors of a graph: see exported_json.h.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "worker/torch/exported_json.h"

namespace pipestage {
namespace {

std::string BaseName(absl::string_view path) {
  return std::string(path.substr(path.find_last_of("/\\") + 1));
}

// The innermost frame of a Python stack trace that lies outside torch itself:
//   File "/home/me/model.py", line 7, in forward
//     return self.linear(x)
std::string SourceOf(absl::string_view stack_trace) {
  std::string source;
  std::vector<absl::string_view> lines = absl::StrSplit(stack_trace, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (!absl::ConsumePrefix(&line, "File \"")) continue;
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits("\", line ", 1));
    if (parts.size() != 2) continue;
    if (absl::StrContains(parts[0], "/torch/") && !source.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> place =
        absl::StrSplit(parts[1], absl::MaxSplits(", ", 1));
    source =
        absl::StrCat(BaseName(parts[0]), ":", place.first, " ", place.second);
    if (i + 1 < lines.size()) {
      absl::StrAppend(&source, ": ", absl::StripAsciiWhitespace(lines[i + 1]));
    }
  }
  return source;
}

ExportedNode ParseNode(const Json& json, int depth) {
  ExportedNode node;
  node.target = json.at("target").get<std::string>();
  const Json name = json.value("name", Json());
  node.name = name.is_string() ? name.get<std::string>() : node.target;
  for (const Json& input : json.at("inputs")) {
    node.inputs.push_back({input.at("name").get<std::string>(),
                           ParseArgument(input.at("arg"), depth)});
  }
  for (const Json& output : json.at("outputs")) {
    node.outputs.push_back(ParseArgument(output, depth));
  }
  const Json& metadata = json.at("metadata");
  if (metadata.contains("stack_trace")) {
    node.source = SourceOf(metadata.at("stack_trace").get<std::string>());
  }
  return node;
}

}  // namespace

ExportedSize ParseSize(const Json& json) {
  const auto [key, value] = UnionMember(json);
  if (key == "as_int") return {ParseInt(*value), ""};
  const std::string text = value->at("expr_str").get<std::string>();
  absl::string_view rest = text;
  // "Symbol('s77', positive=True, integer=True)", alone.
  if (absl::ConsumePrefix(&rest, "Symbol('") && absl::EndsWith(rest, ")") &&
      rest.find('(') == absl::string_view::npos &&
      rest.find(')') == rest.size() - 1) {
    return {std::nullopt, std::string(rest.substr(0, rest.find('\'')))};
  }
  return {};
}

ExportedTensor ParseTensor(const Json& json) {
  ExportedTensor tensor;
  tensor.scalar_type = ParseInt(json.at("dtype"));
  for (const Json& size : json.at("sizes")) {
    tensor.sizes.push_back(ParseSize(size));
  }
  for (const Json& stride : json.at("strides")) {
    tensor.strides.push_back(ParseSize(stride));
  }
  tensor.requires_grad = json.value("requires_grad", false);
  return tensor;
}

ExportedGraph ParseGraph(const Json& json, int depth) {
  if (depth > kMaxGraphDepth) Fail("graphs nest too deep");
  ExportedGraph graph;
  for (const Json& input : json.at("inputs")) {
    graph.inputs.push_back(ParseArgument(input, depth));
  }
  for (const Json& output : json.at("outputs")) {
    graph.outputs.push_back(ParseArgument(output, depth));
  }
  for (const Json& node : json.at("nodes")) {
    graph.nodes.push_back(ParseNode(node, depth));
  }
  for (const auto& [name, tensor] : json.at("tensor_values").items()) {
    graph.tensors[name] = ParseTensor(tensor);
  }
  return graph;
}

}  // namespace pipestage
