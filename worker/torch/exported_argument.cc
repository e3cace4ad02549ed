// The arguments of a node: see exported_json.h.

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/torch/exported_json.h"

namespace pipestage {
namespace {

using Kind = ExportedArgument::Kind;

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
    argument.ints.push_back(json.is_null() ? 0 : ParseInt(json));
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
  if (key == "as_int") return Ints(Kind::kInt, {ParseInt(*value)});
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
  if (key == "as_int") return Ints(Kind::kInt, {ParseInt(json)});
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
    return Ints(Kind::kScalarType, {ParseInt(json)});
  }
  if (key == "as_layout") return Ints(Kind::kLayout, {ParseInt(json)});
  if (key == "as_memory_format") {
    return Ints(Kind::kMemoryFormat, {ParseInt(json)});
  }
  return std::nullopt;
}

}  // namespace

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

}  // namespace pipestage
