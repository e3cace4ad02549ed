// Every rule of docs/formats.md about pipeline.json: the example with one thing
// changed is refused, and the message begins with the place.

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "package/contract.h"
#include "package/testing/example_contract.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Json = nlohmann::json;

// One change to the example: JSON Patch operations and what is said then.
struct Case {
  const char* patch;
  const char* place;
  const char* problem;
};

void ExpectRefused(const std::vector<Case>& cases) {
  for (const auto& [patch, place, problem] : cases) {
    const Json changed = ExampleContract().patch(Json::parse(patch));
    EXPECT_THAT(ParseContract(changed.dump()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(StartsWith(std::string(place) + ": "),
                               HasSubstr(problem))))
        << patch;
  }
}

TEST(ContractRulesTest, UnknownKeysAreRefusedAtEveryLevel) {
  ExpectRefused({
      {R"([{"op":"add","path":"/epoch","value":1}])", "epoch", "unknown key"},
      {R"([{"op":"add","path":"/created_by/os","value":"x"}])", "created_by.os",
       "unknown key"},
      {R"([{"op":"add","path":"/defaults/rows","value":1}])", "defaults.rows",
       "unknown key"},
      {R"([{"op":"add","path":"/sizes/seq/step","value":1}])", "sizes.seq.step",
       "unknown key"},
      {R"([{"op":"add","path":"/inputs/1/dim","value":1}])", "inputs[1].dim",
       "unknown key"},
      {R"([{"op":"add","path":"/stages/1/weight","value":""}])",
       "stages[1].weight", "unknown key"},
      {R"([{"op":"add","path":"/stages/0/program/name","value":""}])",
       "stages[0].program.name", "unknown key"},
      {R"([{"op":"add","path":"/stages/1/program/file","value":""}])",
       "stages[1].program.file", "unknown key"},
      {R"([{"op":"add","path":"/loss/inputs","value":[]}])", "loss.inputs",
       "unknown key"},
      {R"([{"op":"add","path":"/files/stages~10.eval.pt2/mode","value":1}])",
       "files[\"stages/0.eval.pt2\"].mode", "unknown key"},
  });
}

TEST(ContractRulesTest, MissingKeysAreNamed) {
  ExpectRefused({
      {R"([{"op":"remove","path":"/format"}])", "format", "missing"},
      {R"([{"op":"remove","path":"/name"}])", "name", "missing"},
      {R"([{"op":"remove","path":"/version"}])", "version", "missing"},
      {R"([{"op":"remove","path":"/inputs"}])", "inputs", "missing"},
      {R"([{"op":"remove","path":"/outputs"}])", "outputs", "missing"},
      {R"([{"op":"remove","path":"/stages"}])", "stages", "missing"},
      {R"([{"op":"remove","path":"/files"}])", "files", "missing"},
      {R"([{"op":"remove","path":"/inputs/1/axis"}])", "inputs[1].axis",
       "missing"},
      {R"([{"op":"remove","path":"/stages/1/inputs/0/dtype"}])",
       "stages[1].inputs[0].dtype", "missing"},
      {R"([{"op":"remove","path":"/stages/1/program"}])", "stages[1].program",
       "missing"},
      {R"([{"op":"remove","path":"/stages/1/program/kind"}])",
       "stages[1].program.kind", "missing"},
      {R"([{"op":"remove","path":"/stages/1/program/name"}])",
       "stages[1].program.name", "missing"},
      {R"([{"op":"remove","path":"/stages/0/program/file"}])",
       "stages[0].program.file", "missing"},
      {R"([{"op":"remove","path":"/loss/kind"}])", "loss.kind", "missing"},
      {R"([{"op":"remove","path":"/loss/target"}])", "loss.target", "missing"},
      {R"([{"op":"remove","path":"/files/stages~10.eval.pt2/sha256"}])",
       "files[\"stages/0.eval.pt2\"].sha256", "missing"},
  });
}

TEST(ContractRulesTest, ValuesOfAnotherKindAreRefused) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/format","value":1}])", "format",
       "expected a string, found an integer"},
      {R"([{"op":"replace","path":"/name","value":"Byte LM"}])", "name",
       "\"Byte LM\" does not match ^[a-z0-9]"},
      {R"([{"op":"replace","path":"/version","value":"../1"}])", "version",
       "does not match"},
      {R"([{"op":"replace","path":"/description","value":["x"]}])",
       "description", "expected a string, found a list"},
      {R"([{"op":"replace","path":"/created_by/torch","value":2.14}])",
       "created_by.torch", "expected a string"},
      {R"([{"op":"replace","path":"/defaults/num_microbatches","value":0}])",
       "defaults.num_microbatches", "is 0; allowed are 1 to 2147483647"},
      {R"([{"op":"replace","path":"/defaults/num_microbatches","value":2.5}])",
       "defaults.num_microbatches", "expected an integer"},
      {R"([{"op":"replace","path":"/defaults/schedule","value":""}])",
       "defaults.schedule", "is empty"},
      {R"([{"op":"replace","path":"/sizes/rows/min","value":0}])",
       "sizes.rows.min", "is 0; allowed are 1 to"},
      {R"([{"op":"replace","path":"/sizes/seq/max","value":1}])",
       "sizes.seq.max", "is 1; allowed are 2 to"},
      {R"([{"op":"replace","path":"/inputs","value":{}}])", "inputs",
       "expected a list, found an object"},
      {R"([{"op":"replace","path":"/inputs/0","value":"tokens"}])", "inputs[0]",
       "expected an object, found a string"},
      {R"([{"op":"replace","path":"/inputs/0/name","value":"to kens"}])",
       "inputs[0].name", "\"to kens\" is no name"},
      {R"([{"op":"replace","path":"/inputs/0/name","value":""}])",
       "inputs[0].name", "is no name"},
      {R"([{"op":"replace","path":"/stages/1/inputs/0/dtype",
            "value":"float31"}])",
       "stages[1].inputs[0].dtype", "unknown dtype \"float31\"; expected bool"},
      {R"([{"op":"replace","path":"/inputs/0/shape/1","value":"seq*"}])",
       "inputs[0].shape[1]", "expected a number, a name or \"(\""},
      {R"([{"op":"replace","path":"/inputs/0/shape/1","value":-1}])",
       "inputs[0].shape[1]", "is -1"},
      {R"([{"op":"replace","path":"/inputs/0/shape/1","value":1.5}])",
       "inputs[0].shape[1]", "expected an integer"},
      {R"([{"op":"replace","path":"/inputs/1/shape",
            "value":[1,1,1,1,1,1,1,1,1]}])",
       "inputs[1].shape", "has 9 axes; at most 8"},
      {R"([{"op":"replace","path":"/inputs/0/axis","value":2}])",
       "inputs[0].axis", "is 2; allowed are 0 to 1"},
      {R"([{"op":"replace","path":"/inputs/0/axis","value":-1}])",
       "inputs[0].axis", "is -1"},
      {R"([{"op":"replace","path":"/inputs/1/axis","value":0}])",
       "inputs[1].axis", "0-dim"},
      {R"([{"op":"replace","path":"/stages/0/program/kind","value":"onnx"}])",
       "stages[0].program.kind", "unknown kind \"onnx\""},
      {R"([{"op":"replace","path":"/stages/1/program/params","value":[]}])",
       "stages[1].program.params", "expected an object"},
      {R"([{"op":"replace","path":"/stages/0/program/file",
            "value":"../other/0.pt2"}])",
       "stages[0].program.file", "is no path within the package"},
      {R"([{"op":"replace","path":"/stages/0/weights","value":"/etc/passwd"}])",
       "stages[0].weights", "is no path within the package"},
      {R"([{"op":"replace","path":"/loss/kind","value":"hinge"}])", "loss.kind",
       "unknown kind \"hinge\""},
      {R"([{"op":"replace","path":"/files/stages~10.eval.pt2/sha256",
            "value":"abc"}])",
       "files[\"stages/0.eval.pt2\"].sha256", "64 hex digits"},
      {R"([{"op":"replace","path":"/files/stages~10.eval.pt2/bytes",
            "value":-1}])",
       "files[\"stages/0.eval.pt2\"].bytes", "is -1"},
      {R"([{"op":"replace","path":"/files/stages~10.eval.pt2/bytes",
            "value":18446744073709551615}])",
       "files[\"stages/0.eval.pt2\"].bytes", "is 18446744073709551615"},
      {R"([{"op":"move","from":"/files/stages~10.eval.pt2",
            "path":"/files/.."}])",
       "files[\"..\"]", "is no path within the package"},
  });
}

TEST(ContractRulesTest, NamesAreDeclaredOnce) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/inputs/1/name","value":"tokens"}])",
       "inputs[1].name", "\"tokens\" is declared twice"},
      {R"([{"op":"copy","from":"/targets/0","path":"/targets/1"}])",
       "targets[1].name", "\"targets\" is declared twice"},
      {R"([{"op":"copy","from":"/outputs/0","path":"/outputs/1"}])",
       "outputs[1].name", "\"logits\" is declared twice"},
      {R"([{"op":"replace","path":"/targets/0/name","value":"logits"}])",
       "outputs[0].name", "\"logits\" is a target as well"},
      {R"([{"op":"copy","from":"/stages/0/outputs/0",
            "path":"/stages/0/outputs/1"}])",
       "stages[0].outputs[1].name", "\"hidden\" is declared twice"},
      {R"([{"op":"copy","from":"/stages/0/inputs/0",
            "path":"/stages/0/inputs/1"}])",
       "stages[0].inputs[1].name", "\"tokens\" is declared twice"},
  });
}

TEST(ContractRulesTest, SplitAxisIsRowsAndNothingElseIs) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/inputs/0/axis","value":1}])",
       "inputs[0].shape[0]", "\"rows\" mentions \"rows\", but axis is 1"},
      {R"([{"op":"replace","path":"/inputs/0/shape/0","value":"rows*2"}])",
       "inputs[0].axis", "its size is \"rows\"; it is \"rows*2\""},
      {R"([{"op":"replace","path":"/inputs/0/shape/0","value":4}])",
       "inputs[0].axis", "it is \"4\""},
      {R"([{"op":"replace","path":"/inputs/0/axis","value":null}])",
       "inputs[0].shape[0]", "mentions \"rows\", but axis is null"},
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"rows+1"}])",
       "targets[0].shape[1]", "\"rows+1\" mentions \"rows\", but axis is 0"},
      {R"([{"op":"replace","path":"/targets/0/axis","value":null}])",
       "targets[0].shape[0]", "mentions \"rows\""},
      {R"([{"op":"remove","path":"/inputs/0"}])", "inputs",
       "none has an axis that is split"},
  });
}

TEST(ContractRulesTest, OutputsAreJoinedAlongRows) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/outputs","value":[]}])", "outputs",
       "is empty"},
      {R"([{"op":"replace","path":"/outputs/0/axis","value":2}])",
       "outputs[0].shape[0]",
       "mentions \"rows\", but microbatches are joined along axis 2"},
      {R"([{"op":"replace","path":"/outputs/0/shape/0","value":4}])",
       "outputs[0].axis", "mentions \"rows\" or is \"?\"; it is \"4\""},
      {R"([{"op":"replace","path":"/outputs/0/shape/2","value":"rows"}])",
       "outputs[0].shape[2]", "joined along axis 0"},
      {R"([{"op":"replace","path":"/outputs/0/shape",
            "value":[1,1,1,1,1,1,1,1]},
           {"op":"replace","path":"/outputs/0/axis","value":null}])",
       "outputs[0].shape", "has 8 axes; stacking microbatches adds one"},
      {R"([{"op":"replace","path":"/outputs/0/axis","value":null}])",
       "outputs[0].shape[0]", "mentions \"rows\", but axis is null"},
  });
}

TEST(ContractRulesTest, FirstStageTakesTheModelsInputs) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/stages","value":[]}])", "stages",
       "is empty"},
      {R"([{"op":"replace","path":"/stages/0/inputs/0/name","value":"words"}])",
       "stages[0].inputs[0].name",
       "\"words\" is no input of the model, which has \"tokens\", \"scale\""},
      {R"([{"op":"replace","path":"/stages/0/inputs/0/dtype",
            "value":"int32"}])",
       "stages[0].inputs[0].dtype", "is int32; inputs[0] is int64"},
      {R"([{"op":"replace","path":"/stages/0/inputs/0/shape/1","value":16}])",
       "stages[0].inputs[0].shape", "is [rows, 16]; inputs[0] is [rows, seq]"},
      {R"([{"op":"replace","path":"/stages/0/inputs/0/axis","value":1}])",
       "stages[0].inputs[0].axis", "is 1; inputs[0] has 0"},
  });
}

TEST(ContractRulesTest, NeighboursAgree) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/stages/1/inputs","value":[]}])",
       "stages[1].inputs", "has 0 tensors; stages[0].outputs has 1"},
      {R"([{"op":"replace","path":"/stages/1/inputs/0/dtype",
            "value":"float16"}])",
       "stages[1].inputs[0].dtype",
       "is float16; stages[0].outputs[0] is float32"},
      {R"([{"op":"replace","path":"/stages/1/inputs/0/shape/2","value":32}])",
       "stages[1].inputs[0].shape",
       "is [rows, seq, 32]; stages[0].outputs[0] is [rows, seq, 64]"},
      {R"([{"op":"replace","path":"/stages/0/outputs","value":[]}])",
       "stages[0].outputs", "is empty"},
  });
}

TEST(ContractRulesTest, LastStageGivesTheModelsOutputs) {
  ExpectRefused({
      {R"([{"op":"add","path":"/stages/1/outputs/1","value":
            {"name":"more","dtype":"bool","shape":[],"axis":null}}])",
       "stages[1].outputs", "has 2 tensors; the model's outputs has 1"},
      {R"([{"op":"replace","path":"/stages/1/outputs/0/name","value":"y"}])",
       "stages[1].outputs[0].name", "is \"y\"; outputs[0] is \"logits\""},
      {R"([{"op":"replace","path":"/stages/1/outputs/0/dtype",
            "value":"bool"}])",
       "stages[1].outputs[0].dtype", "is bool; outputs[0] is float32"},
      {R"([{"op":"replace","path":"/stages/1/outputs/0/shape/2","value":1}])",
       "stages[1].outputs[0].shape", "outputs[0] is [rows, seq, 256]"},
      {R"([{"op":"replace","path":"/stages/1/outputs/0/axis","value":1}])",
       "stages[1].outputs[0].axis", "is 1; outputs[0] has 0"},
  });
}

TEST(ContractRulesTest, KeywordsNameModelInputsAndEveryInputIsUsed) {
  ExpectRefused({
      {R"([{"op":"add","path":"/stages/1/keyword_inputs/0","value":"mask"}])",
       "stages[1].keyword_inputs[0]", "\"mask\" is no input of the model"},
      {R"([{"op":"add","path":"/stages/1/keyword_inputs/0","value":"hidden"}])",
       "stages[1].keyword_inputs[0]", "\"hidden\" is no input of the model"},
      {R"([{"op":"add","path":"/stages/0/keyword_inputs/1","value":"scale"}])",
       "stages[0].keyword_inputs[1]",
       "\"scale\" is an input of this stage twice"},
      {R"([{"op":"add","path":"/stages/0/keyword_inputs/1","value":"tokens"}])",
       "stages[0].keyword_inputs[1]",
       "\"tokens\" is an input of this stage twice"},
      {R"([{"op":"remove","path":"/stages/0/keyword_inputs"}])", "inputs[1]",
       "no stage takes \"scale\""},
  });
}

TEST(ContractRulesTest, DataDependentSizesAreOfOutputsAlone) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/inputs/0/shape/1","value":"?"},
           {"op":"replace","path":"/stages/0/inputs/0/shape/1","value":"?"}])",
       "inputs[0].shape[1]", "\"?\" is allowed in the outputs of the model"},
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"?"}])",
       "targets[0].shape[1]", "\"?\" is allowed"},
      {R"([{"op":"replace","path":"/stages/0/outputs/0/shape/1","value":"?"},
           {"op":"replace","path":"/stages/1/inputs/0/shape/1","value":"?"}])",
       "stages[0].outputs[0].shape[1]", "\"?\" is allowed"},
  });
}

TEST(ContractRulesTest, EveryNamedSizeIsBound) {
  ExpectRefused({
      {R"([{"op":"add","path":"/sizes/width","value":{"max":4}}])",
       "sizes.width", "not the whole size of an axis of any input or target"},
      {R"([{"op":"replace","path":"/outputs/0/shape/2","value":"vocab"},
           {"op":"replace","path":"/stages/1/outputs/0/shape/2",
            "value":"vocab"}])",
       "outputs[0].shape[2]", "\"vocab\" is not the whole size of an axis"},
      {R"([{"op":"replace","path":"/inputs/0/shape/1","value":"seq*2"},
           {"op":"replace","path":"/stages/0/inputs/0/shape/1",
            "value":"seq*2"}])",
       "inputs[0].shape[1]", "\"seq\" is not the whole size"},
      {R"([{"op":"replace","path":"/stages/0/outputs/0/shape/2","value":"d"},
           {"op":"replace","path":"/stages/1/inputs/0/shape/2","value":"d"}])",
       "stages[0].outputs[0].shape[2]", "\"d\" is not the whole size"},
      // Bound by a target alone: not known to a call without a loss.
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"wide"},
           {"op":"replace","path":"/outputs/0/shape/1","value":"wide"},
           {"op":"replace","path":"/stages/1/outputs/0/shape/1",
            "value":"wide"}])",
       "outputs[0].shape[1]", "\"wide\" is not the whole size"},
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"wide//2"}])",
       "targets[0].shape[1]", "\"wide\" is not the whole size"},
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"2-3"}])",
       "targets[0].shape[1]", "size \"2-3\" is -1"},
      {R"([{"op":"replace","path":"/targets/0/shape/1","value":"1//0"}])",
       "targets[0].shape[1]", "division by zero"},
  });
}

TEST(ContractRulesTest, LossFitsOutputsAndTargets) {
  ExpectRefused({
      {R"([{"op":"replace","path":"/loss/prediction","value":"hidden"}])",
       "loss.prediction", "\"hidden\" is no output of the model"},
      {R"([{"op":"replace","path":"/loss/target","value":"tokens"}])",
       "loss.target", "\"tokens\" is no target of the model"},
      {R"([{"op":"replace","path":"/targets/0/dtype","value":"float32"}])",
       "loss.target", "\"targets\" is float32; expected an integer dtype"},
      {R"([{"op":"replace","path":"/targets/0/dtype","value":"bool"}])",
       "loss.target", "\"targets\" is bool"},
      {R"([{"op":"replace","path":"/targets/0/shape","value":["rows"]}])",
       "loss.target", "the shape of \"logits\" less its last axis"},
      {R"([{"op":"replace","path":"/outputs/0/dtype","value":"int64"},
           {"op":"replace","path":"/stages/1/outputs/0/dtype",
            "value":"int64"}])",
       "loss.prediction", "\"logits\" is int64; expected a floating-point"},
      {R"([{"op":"replace","path":"/outputs/0/shape","value":[]},
           {"op":"replace","path":"/outputs/0/axis","value":null},
           {"op":"replace","path":"/stages/1/outputs/0/shape","value":[]},
           {"op":"replace","path":"/stages/1/outputs/0/axis","value":null}])",
       "loss.prediction", "has no axis of classes"},
      {R"([{"op":"replace","path":"/loss","value":{"kind":"mean_squared_error",
            "prediction":"logits","target":"targets"}}])",
       "loss.target", "\"targets\" has not the shape of \"logits\""},
      {R"([{"op":"replace","path":"/loss","value":{"kind":"program",
            "program":{"kind":"module","name":"m"},"inputs":[]}}])",
       "loss.inputs", "is empty"},
      {R"([{"op":"replace","path":"/loss","value":{"kind":"program",
            "program":{"kind":"module","name":"m"},
            "inputs":["logits","tokens"]}}])",
       "loss.inputs[1]", "\"tokens\" is no output or target of the model"},
  });
}

TEST(ContractRulesTest, EveryFileHasADigest) {
  ExpectRefused({
      {R"([{"op":"remove","path":"/files/stages~10.eval.pt2"}])",
       "stages[0].program.file",
       "\"stages/0.eval.pt2\" is not among \"files\""},
      {R"([{"op":"remove","path":"/files/stages~10.step.pt2"}])",
       "stages[0].step_program.file", "is not among \"files\""},
      {R"([{"op":"remove","path":"/files/weights~10.safetensors"}])",
       "stages[0].weights", "is not among \"files\""},
      {R"([{"op":"replace","path":"/loss","value":{"kind":"program",
            "program":{"kind":"export","file":"loss/loss.pt2"},
            "inputs":["logits"]}}])",
       "loss.program.file", "\"loss/loss.pt2\" is not among \"files\""},
      {R"([{"op":"replace","path":"/loss","value":{"kind":"program",
            "program":{"kind":"module","name":"m"},
            "weights":"loss/w.safetensors","inputs":["logits"]}}])",
       "loss.weights", "is not among \"files\""},
  });
}

}  // namespace
}  // namespace pipestage
