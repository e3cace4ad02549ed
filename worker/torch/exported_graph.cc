#include "worker/torch/exported_graph.h"

#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/torch/exported_json.h"

namespace pipestage {
namespace {

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
    if (min.is_number_integer()) parsed.min = ParseInt(min);
    if (max.is_number_integer()) parsed.max = ParseInt(max);
  }
  return ranges;
}

void CheckVersion(const Json& json) {
  const int64_t major = ParseInt(json.at("schema_version").at("major"));
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
