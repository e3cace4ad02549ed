#ifndef PIPESTAGE_PACKAGE_CONTRACT_H_
#define PIPESTAGE_PACKAGE_CONTRACT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "package/size_expression.h"
#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// What a model promises about its tensors, stages and loss: the content of
// pipeline.json (docs/formats.md), checked to be consistent in itself. Plain
// data.

struct TensorContract {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<SizeExpression> shape;
  // Inputs and targets: the axis split into microbatches; unset = replicated.
  // Outputs: the axis along which microbatches are joined; unset = each
  // microbatch gives one, and they are stacked along a new axis 0.
  // Stage boundaries: the axis that carries rows, if one does; informative.
  std::optional<int> axis;
};

// What a stage executes.
struct ProgramRef {
  enum class Kind { kExport, kModule, kTorchScript };
  Kind kind = Kind::kExport;
  std::string file;         // kExport, kTorchScript: path within the package
  std::string module;       // kModule: registered name
  std::string params_json;  // kModule: a JSON object, "{}" if none
};

struct StageContract {
  StageIndex index;
  ProgramRef program;                      // for Eval
  std::optional<ProgramRef> step_program;  // for Step
  std::string weights_file;                // safetensors; empty = no weights
  // Positional inputs: of stage 0 these are model inputs, by name; of the
  // others the outputs of the stage before, in order.
  std::vector<TensorContract> inputs;
  // Model inputs that this stage takes as keywords, by name, after the
  // positional ones.
  std::vector<std::string> keyword_inputs;
  std::vector<TensorContract> outputs;
};

struct LossContract {
  enum class Kind { kCrossEntropy, kMeanSquaredError, kProgram };
  Kind kind = Kind::kCrossEntropy;
  // kCrossEntropy: an output of logits, classes on its last axis, and a target
  // of class indices. kMeanSquaredError: an output and a target of one shape;
  // every element counts.
  std::string prediction;
  std::string target;
  int64_t ignore_index = -100;  // kCrossEntropy: targets that do not count
  // kProgram: takes `inputs` (names of model outputs, then targets) and returns
  // losses per row or per token, and optionally their integer or bool weights.
  ProgramRef program;
  std::string weights_file;
  std::vector<std::string> inputs;
};

struct SizeRange {
  int64_t min = 1;
  int64_t max = INT64_MAX;
};

struct PackageFile {
  std::string sha256;  // hex, lower case
  int64_t bytes = 0;
};

struct PackageContract {
  std::string name;
  std::string version;
  std::string description;
  int32_t default_num_microbatches = 4;
  std::string default_schedule = "1F1B";
  std::vector<TensorContract> inputs;  // all of them, positional and keyword
  std::vector<TensorContract> targets;
  std::vector<TensorContract> outputs;     // those of the last stage
  std::map<std::string, SizeRange> sizes;  // allowed values of the named sizes
  std::vector<StageContract> stages;
  std::optional<LossContract> loss;
  std::map<std::string, PackageFile> files;  // by path within the package

  // Position of the named input, target or output; nullopt if there is none.
  std::optional<int> InputIndex(absl::string_view name) const;
  std::optional<int> TargetIndex(absl::string_view name) const;
  std::optional<int> OutputIndex(absl::string_view name) const;
};

// Reads pipeline.json. InvalidArgument names the place
// ("stages[1].inputs[0].dtype") and what was expected: unknown or missing keys,
// unknown dtypes, neighbours that disagree, an axis outside the shape, a name
// declared twice, a file without digest, a size that no input binds, a format
// version this build does not read.
absl::StatusOr<PackageContract> ParseContract(absl::string_view json);

// The shape of a tensor under these sizes.
absl::StatusOr<Shape> ResolveShape(const TensorContract& contract,
                                   const Sizes& sizes);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_CONTRACT_H_
