#include "worker/torch/exported_graph.h"

#include <cmath>
#include <string>

#include "absl/strings/str_replace.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ExportedArgument::Kind;

constexpr char kModule[] = R"json({
  "schema_version": {"major": 8, "minor": 20},
  "verifiers": ["TRAINING"],
  "range_constraints": {"s77": {"min_val": 1, "max_val": 64}},
  "graph_module": {
    "module_call_graph": [{"fqn": "", "signature": {"in_spec":
      "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[\\\"k\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]}]"}}],
    "signature": {
      "input_specs": [
        {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "l.w"}},
        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
        {"user_input": {"arg": {"as_tensor": {"name": "k"}}}}],
      "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]},
    "graph": {
      "inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "x"}},
                 {"as_tensor": {"name": "k"}}],
      "outputs": [{"as_tensor": {"name": "y"}}],
      "tensor_values": {"x": {"dtype": 7, "strides": [{"as_int": 1}], "sizes": [
        {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)"}},
        {"as_expr": {"expr_str": "2*Symbol('s77', integer=True)"}},
        {"as_int": 4}]}},
      "nodes": [{"target": "torch.ops.aten.clamp.default", "name": "y",
        "inputs": [
          {"name": "self", "kind": 1, "arg": {"as_tensor": {"name": "x"}}},
          {"name": "min", "kind": 1, "arg": {"as_float": "-Infinity"}},
          {"name": "size", "kind": 1, "arg":
            {"as_sym_ints": [{"as_name": "n"}, {"as_int": 3}]}}],
        "outputs": [{"as_tensor": {"name": "y"}}],
        "metadata": {"stack_trace":
          "File \"/home/a/run.py\", line 1, in main\n    go()\n  File \"/home/a/model.py\", line 7, in forward\n    return self.act(x)\n  File \"/site-packages/torch/nn/act.py\", line 9, in forward\n    clamp"}}]}}})json";

std::string With(const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(kModule, {{from, to}});
}

TEST(ExportedGraphTest, ReadsArgumentsNamesAndTheModelsOwnLine) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const ExportedModule module,
                                 ParseExportedModule(kModule));

  ASSERT_EQ(module.graph.nodes.size(), 1);
  const ExportedNode& node = module.graph.nodes[0];
  EXPECT_EQ(node.source, "model.py:7 in forward: return self.act(x)");
  EXPECT_EQ(node.inputs[1].argument.kind, Kind::kFloat);
  EXPECT_EQ(node.inputs[1].argument.floats[0], -INFINITY);
  EXPECT_EQ(node.inputs[2].argument.kind, Kind::kInts);
  EXPECT_THAT(node.inputs[2].argument.names, ElementsAre("n", ""));
  EXPECT_EQ(node.inputs[2].argument.ints[1], 3);
}

TEST(ExportedGraphTest, ReadsInputsKeywordsSymbolsAndRanges) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const ExportedModule module,
                                 ParseExportedModule(kModule));

  EXPECT_EQ(module.inputs[0].kind, ExportedInput::Kind::kParameter);
  EXPECT_EQ(module.inputs[0].fqn, "l.w");
  EXPECT_EQ(module.inputs[1].kind, ExportedInput::Kind::kUser);
  EXPECT_THAT(module.keywords, ElementsAre("k"));
  const ExportedTensor& x = module.graph.tensors.at("x");
  EXPECT_EQ(x.sizes[0].symbol, "s77");
  EXPECT_EQ(x.sizes[1].symbol, "");
  EXPECT_FALSE(x.sizes[1].value.has_value());
  EXPECT_EQ(x.sizes[2].value, 4);
  EXPECT_EQ(module.ranges.at("s77").max, 64);
}

TEST(ExportedGraphTest, WhatThisBuildDoesNotReadIsRefusedByName) {
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(what));
  };
  EXPECT_THAT(ParseExportedModule(With("\"major\": 8", "\"major\": 9")),
              refused("major version is 9"));
  EXPECT_THAT(ParseExportedModule(With("TRAINING", "ATEN")),
              refused("not TRAINING"));
  EXPECT_THAT(ParseExportedModule(With("user_output", "buffer_mutation")),
              refused("an output of kind buffer_mutation"));
  EXPECT_THAT(
      ParseExportedModule(With(R"({"user_input": {"arg": {"as_tensor")",
                               R"({"user_input": {"arg": {"as_custom_obj")")),
      refused("as_custom_obj"));
  EXPECT_THAT(ParseExportedModule(With("\"parameter\"", "\"token\"")),
              refused("an input of kind token"));
}

TEST(ExportedGraphTest, MalformedJsonIsAnErrorNotACrash) {
  const std::string json = kModule;
  for (size_t size = 0; size < json.size(); size += 97) {
    EXPECT_THAT(ParseExportedModule(json.substr(0, size)),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  }
  EXPECT_THAT(ParseExportedModule(With("\"as_int\": 4", "\"as_int\": \"4\"")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("64-bit integer")));
  EXPECT_THAT(ParseExportedModule(std::string(100000, '[')),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ParseExportedModule("[]"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace pipestage
