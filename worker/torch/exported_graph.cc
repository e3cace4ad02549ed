#include "worker/torch/exported_graph.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace pipestage {
namespace {

using Json = nlohmann::json;
using Kind = ExportedArgument::Kind;

// Graphs within graphs come from with-blocks; a model's nest a few deep.
constexpr int kMaxGraphDepth = 16;

// What is wrong with the file. Thrown only within this file: the JSON library
// throws anyway, and one catch at the top serves both.
struct Malformed {
  std::string what;
};

[[noreturn]] void Fail(std::string what) { throw Malformed{std::move(what)}; }

ExportedGraph ParseGraph(const Json& json, int depth);

// A block's graph lies some ten levels below its node.
constexpr int kMaxJsonDepth = 16 * kMaxGraphDepth;

Json ParseJson(absl::string_view text) {
  absl::StatusOr<Json> json = ParseStrictJson(text, kMaxJsonDepth);
  if (!json.ok()) Fail(std::string(json.status().message()));
  return *std::move(json);
}

int64_t Int(const Json& json) {
  const bool fits =
      json.is_number_integer() &&
      !(json.is_number_unsigned() &&
        json.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) Fail("expected a 64-bit integer");
  return json.get<int64_t>();
}

// Finite numbers are JSON numbers, the others text.
double ParseFloat(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  Fail(absl::StrCat("\"", text, "\" is no number"));
}

// A union is an object with one key: which alternative it is.
std::pair<std::string, const Json*> UnionMember(const Json& json) {
  if (!json.is_object() || json.size() != 1) {
    Fail(absl::StrCat("expected an object with one key, found ",
                      json.dump().substr(0, 80)));
  }
  return {json.begin().key(), &json.begin().value()};
}

ExportedArgument Value(std::string name) {
  ExportedArgument argument;
  argument.kind = Kind::kValue;
  argument.names.push_back(std::move(name));
  return argument;
}

ExportedArgument Ints(Kind kind, std::vector<int64_t> ints) {
  ExportedArgument argument;
  argument.kind = kind;
  argument.ints = std::move(ints);
  return argument;
}

ExportedArgument Floats(Kind kind, std::vector<double> floats) {
  ExportedArgument argument;
  argument.kind = kind;
  argument.floats = std::move(floats);
  return argument;
}

void AppendElement(Kind list, const Json& json, ExportedArgument& argument) {
  if (list == Kind::kFloats) {
    argument.floats.push_back(json.is_null() ? 0 : ParseFloat(json));
  } else if (list == Kind::kBools) {
    argument.ints.push_back(json.is_null() ? 0 : json.get<bool>());
  } else {
    argument.ints.push_back(json.is_null() ? 0 : Int(json));
  }
}

// A list of numbers, or (`symbolic`) one in which numbers and names mix.
ExportedArgument ParseNumbers(Kind list, bool symbolic, const Json& json) {
  ExportedArgument argument;
  argument.kind = list;
  for (const Json& element : json) {
    if (!symbolic) {
      argument.names.emplace_back();
      AppendElement(list, element, argument);
      continue;
    }
    const auto [key, value] = UnionMember(element);
    const bool named = key == "as_name";
    argument.names.push_back(named ? value->get<std::string>() : "");
    AppendElement(list, named ? Json() : *value, argument);
  }
  return argument;
}

// A symbolic number by name, or a number after all.
ExportedArgument ParseSymbolic(const Json& json) {
  const auto [key, value] = UnionMember(json);
  if (key == "as_name") {
    ExportedArgument argument = Value(value->get<std::string>());
    argument.is_symbolic = true;
    return argument;
  }
  if (key == "as_int") return Ints(Kind::kInt, {Int(*value)});
  if (key == "as_bool") return Ints(Kind::kBool, {value->get<bool>()});
  if (key == "as_float") return Floats(Kind::kFloat, {ParseFloat(*value)});
  Fail(absl::StrCat("unknown kind of symbolic number \"", key, "\""));
}

std::string OptionalTensorName(const Json& json) {
  const auto [key, value] = UnionMember(json);
  return key == "as_none" ? "" : value->at("name").get<std::string>();
}

ExportedArgument ParseOptionalTensor(const Json& json) {
  std::string name = OptionalTensorName(json);
  return name.empty() ? ExportedArgument() : Value(std::move(name));
}

ExportedArgument ParseTensors(const Json& json, bool optional) {
  ExportedArgument argument;
  argument.kind = optional ? Kind::kOptionalValues : Kind::kValues;
  for (const Json& element : json) {
    argument.names.push_back(optional ? OptionalTensorName(element)
                                      : element.at("name").get<std::string>());
  }
  return argument;
}

ExportedArgument ParseText(Kind kind, std::string text) {
  ExportedArgument argument;
  argument.kind = kind;
  argument.text = std::move(text);
  return argument;
}

ExportedArgument ParseStrings(const Json& json) {
  ExportedArgument argument;
  argument.kind = Kind::kStrings;
  argument.strings = json.get<std::vector<std::string>>();
  return argument;
}

ExportedArgument ParseNestedGraph(const Json& json, int depth) {
  ExportedArgument argument;
  argument.kind = Kind::kGraph;
  argument.graph =
      std::make_shared<ExportedGraph>(ParseGraph(json.at("graph"), depth + 1));
  return argument;
}

std::optional<ExportedArgument> ParseList(absl::string_view key,
                                          const Json& json) {
  if (key == "as_tensors") return ParseTensors(json, false);
  if (key == "as_optional_tensors") return ParseTensors(json, true);
  if (key == "as_ints") return ParseNumbers(Kind::kInts, false, json);
  if (key == "as_floats") return ParseNumbers(Kind::kFloats, false, json);
  if (key == "as_bools") return ParseNumbers(Kind::kBools, false, json);
  if (key == "as_sym_ints") return ParseNumbers(Kind::kInts, true, json);
  if (key == "as_sym_floats") return ParseNumbers(Kind::kFloats, true, json);
  if (key == "as_sym_bools") return ParseNumbers(Kind::kBools, true, json);
  if (key == "as_strings") return ParseStrings(json);
  return std::nullopt;
}

std::optional<ExportedArgument> ParseNumber(absl::string_view key,
                                            const Json& json) {
  if (key == "as_int") return Ints(Kind::kInt, {Int(json)});
  if (key == "as_bool") return Ints(Kind::kBool, {json.get<bool>()});
  if (key == "as_float") return Floats(Kind::kFloat, {ParseFloat(json)});
  if (key == "as_complex") {
    return Floats(Kind::kComplex,
                  {ParseFloat(json.at("real")), ParseFloat(json.at("imag"))});
  }
  if (key == "as_sym_int" || key == "as_sym_bool" || key == "as_sym_float") {
    return ParseSymbolic(json);
  }
  return std::nullopt;
}

std::optional<ExportedArgument> ParseEnum(absl::string_view key,
                                          const Json& json) {
  if (key == "as_scalar_type") {
    return Ints(Kind::kScalarType, {Int(json)});
  }
  if (key == "as_layout") return Ints(Kind::kLayout, {Int(json)});
  if (key == "as_memory_format") {
    return Ints(Kind::kMemoryFormat, {Int(json)});
  }
  return std::nullopt;
}

ExportedArgument ParseArgument(const Json& json, int depth) {
  const auto [key, value] = UnionMember(json);
  if (key == "as_none") return ExportedArgument();
  if (key == "as_tensor") return Value(value->at("name").get<std::string>());
  if (key == "as_optional_tensor") return ParseOptionalTensor(*value);
  if (key == "as_string") {
    return ParseText(Kind::kString, value->get<std::string>());
  }
  if (key == "as_device") {
    return ParseText(Kind::kDevice, value->at("type").get<std::string>());
  }
  if (key == "as_graph") return ParseNestedGraph(*value, depth);
  if (auto list = ParseList(key, *value)) return *std::move(list);
  if (auto number = ParseNumber(key, *value)) return *std::move(number);
  if (auto code = ParseEnum(key, *value)) return *std::move(code);
  return ParseText(Kind::kUnsupported, key);
}

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

ExportedSize ParseSize(const Json& json) {
  const auto [key, value] = UnionMember(json);
  if (key == "as_int") return {Int(*value), ""};
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
  tensor.scalar_type = Int(json.at("dtype"));
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

std::string TensorName(const Json& argument, absl::string_view what) {
  const auto [key, value] = UnionMember(argument);
  if (key != "as_tensor") {
    Fail(absl::StrCat(what, " is ", key, "; only tensors cross a stage"));
  }
  return value->at("name").get<std::string>();
}

ExportedInput ParseInput(const Json& json) {
  const auto [key, spec] = UnionMember(json);
  if (key == "user_input") {
    return {ExportedInput::Kind::kUser, TensorName(spec->at("arg"), "an input"),
            "", true};
  }
  if (key == "parameter") {
    return {ExportedInput::Kind::kParameter,
            spec->at("arg").at("name").get<std::string>(),
            spec->at("parameter_name").get<std::string>(), true};
  }
  if (key == "buffer") {
    return {ExportedInput::Kind::kBuffer,
            spec->at("arg").at("name").get<std::string>(),
            spec->at("buffer_name").get<std::string>(),
            spec->at("persistent").get<bool>()};
  }
  if (key == "tensor_constant") {
    return {ExportedInput::Kind::kConstant,
            spec->at("arg").at("name").get<std::string>(),
            spec->at("tensor_constant_name").get<std::string>(), true};
  }
  Fail(absl::StrCat("an input of kind ", key, " is not supported"));
}

void CheckOutput(const Json& json) {
  const auto [key, spec] = UnionMember(json);
  if (key != "user_output") {
    Fail(absl::StrCat("an output of kind ", key, " is not supported"));
  }
  TensorName(spec->at("arg"), "an output");
}

// The keywords of the call, from the pytree that describes its arguments:
// [1, tuple(tuple(positional...), dict(keywords...))].
std::vector<std::string> ParseKeywords(const Json& module_call_graph) {
  const Json& signature = module_call_graph.at(0).at("signature");
  if (signature.is_null()) return {};
  const Json spec = ParseJson(signature.at("in_spec").get<std::string>());
  const Json& keywords = spec.at(1).at("children_spec").at(1);
  std::vector<std::string> names =
      ParseJson(keywords.at("context").get<std::string>())
          .get<std::vector<std::string>>();
  for (const Json& child : keywords.at("children_spec")) {
    if (!child.at("type").is_null()) {
      Fail("a keyword argument is a collection; it must be a tensor");
    }
  }
  return names;
}

std::map<std::string, ExportedRange> ParseRanges(const Json& json) {
  std::map<std::string, ExportedRange> ranges;
  for (const auto& [symbol, range] : json.items()) {
    ExportedRange& parsed = ranges[symbol];
    const Json& min = range.at("min_val");
    const Json& max = range.at("max_val");
    if (min.is_number_integer()) parsed.min = Int(min);
    if (max.is_number_integer()) parsed.max = Int(max);
  }
  return ranges;
}

void CheckVersion(const Json& json) {
  const int64_t major = Int(json.at("schema_version").at("major"));
  if (major != 8) {
    Fail(absl::StrCat("the schema's major version is ", major,
                      "; this build reads 8"));
  }
  for (const Json& verifier : json.at("verifiers")) {
    if (verifier == "TRAINING") continue;
    Fail(absl::StrCat("the graph's form is ", verifier.dump(),
                      ", not TRAINING: save the program that torch.export "
                      "returned, without run_decompositions"));
  }
}

ExportedModule ParseModule(const Json& json) {
  CheckVersion(json);
  const Json& graph_module = json.at("graph_module");
  ExportedModule module;
  module.graph = ParseGraph(graph_module.at("graph"), 0);
  const Json& signature = graph_module.at("signature");
  for (const Json& input : signature.at("input_specs")) {
    const auto [key, spec] = UnionMember(input);
    // A Python number that was an example input: burnt in, given no tensor.
    if (key == "constant_input") {
      Fail("an input is a Python number or string; it must be a tensor");
    }
    module.inputs.push_back(ParseInput(input));
  }
  for (const Json& output : signature.at("output_specs")) CheckOutput(output);
  module.keywords = ParseKeywords(graph_module.at("module_call_graph"));
  module.ranges = ParseRanges(json.at("range_constraints"));
  if (module.inputs.size() != module.graph.inputs.size()) {
    Fail(absl::StrCat("the signature has ", module.inputs.size(),
                      " inputs, the graph ", module.graph.inputs.size()));
  }
  return module;
}

std::map<std::string, ExportedConstant> ParseConstants(const Json& json) {
  std::map<std::string, ExportedConstant> constants;
  for (const auto& [name, entry] : json.at("config").items()) {
    ExportedConstant& constant = constants[name];
    constant.record = entry.at("path_name").get<std::string>();
    constant.pickled = entry.at("use_pickle").get<bool>();
    if (constant.pickled) continue;
    const Json& meta = entry.at("tensor_meta");
    constant.tensor = ParseTensor(meta);
    constant.storage_offset =
        ParseSize(meta.at("storage_offset")).value.value();
  }
  return constants;
}

template <typename Fn>
auto Guarded(absl::string_view record, Fn fn)
    -> absl::StatusOr<decltype(fn())> {
  std::string what;
  try {
    return fn();
  } catch (const Malformed& malformed) {
    what = malformed.what;
  } catch (const std::exception& e) {
    what = e.what();
  }
  return absl::FailedPreconditionError(absl::StrCat(record, ": ", what));
}

}  // namespace

absl::StatusOr<ExportedModule> ParseExportedModule(absl::string_view json) {
  return Guarded("models/model.json",
                 [&] { return ParseModule(ParseJson(json)); });
}

absl::StatusOr<std::map<std::string, ExportedConstant>> ParseExportedConstants(
    absl::string_view json) {
  return Guarded("data/constants/model_constants_config.json",
                 [&] { return ParseConstants(ParseJson(json)); });
}

std::optional<DType> DTypeOfScalarTypeCode(int64_t code) {
  switch (code) {
    case 1:
      return DType::kUint8;
    case 2:
      return DType::kInt8;
    case 3:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    case 5:
      return DType::kInt64;
    case 6:
      return DType::kFloat16;
    case 7:
      return DType::kFloat32;
    case 8:
      return DType::kFloat64;
    case 12:
      return DType::kBool;
    case 13:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace pipestage
