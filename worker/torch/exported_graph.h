#ifndef PIPESTAGE_WORKER_TORCH_EXPORTED_GRAPH_H_
#define PIPESTAGE_WORKER_TORCH_EXPORTED_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"

namespace pipestage {

// What models/model.json of a .pt2 archive says, as plain data. Names no
// LibTorch.

struct ExportedGraph;

// An argument of a node, or one of its outputs.
struct ExportedArgument {
  enum class Kind {
    kNone,
    kValue,           // a tensor or symbolic number, names[0]
    kValues,          // tensors
    kOptionalValues,  // tensors; "" stands for None
    kInt,
    kFloat,
    kBool,
    kString,
    kComplex,  // floats: real, imaginary
    // Lists. A non-empty names[i] is a symbolic number in place of element i.
    kInts,
    kFloats,
    kBools,  // in ints
    kStrings,
    kScalarType,    // ints[0]: code of torch.export, see ScalarTypeCode
    kLayout,        // ints[0]
    kMemoryFormat,  // ints[0]
    kDevice,        // text: "cpu", "cuda"
    kGraph,
    kUnsupported,  // text: its kind
  };
  Kind kind = Kind::kNone;
  bool is_symbolic = false;  // kValue: a number, not a tensor
  std::vector<std::string> names;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::string text;
  std::shared_ptr<const ExportedGraph> graph;
};

struct ExportedNode {
  std::string name;
  std::string target;  // "torch.ops.aten.add.Tensor", "_operator.add"
  struct Input {
    std::string name;  // of the schema's argument; empty for higher-order ops
    ExportedArgument argument;
  };
  std::vector<Input> inputs;
  std::vector<ExportedArgument> outputs;
  // The line of the model's Python source: "model.py:7 in forward: return x".
  std::string source;
};

// A size in tensor metadata: a number, a plain symbol ("s77"), or neither: an
// expression of symbols.
struct ExportedSize {
  std::optional<int64_t> value;
  std::string symbol;
};

struct ExportedTensor {
  int64_t scalar_type = 0;  // code of torch.export
  std::vector<ExportedSize> sizes;
  std::vector<ExportedSize> strides;
  bool requires_grad = false;
};

struct ExportedGraph {
  std::vector<ExportedArgument> inputs;
  std::vector<ExportedArgument> outputs;
  std::vector<ExportedNode> nodes;
  std::map<std::string, ExportedTensor> tensors;  // by value name
};

struct ExportedInput {
  enum class Kind { kParameter, kBuffer, kConstant, kUser, kUnused };
  Kind kind = Kind::kUser;
  std::string value;       // name in the graph
  std::string fqn;         // parameters, buffers, constants
  bool persistent = true;  // buffers
};

struct ExportedRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};

struct ExportedModule {
  ExportedGraph graph;
  // One for each of graph.inputs, in order.
  std::vector<ExportedInput> inputs;
  // Names of the keywords; user inputs are the positional ones, then these.
  std::vector<std::string> keywords;
  std::map<std::string, ExportedRange> ranges;  // of symbols
};

// Reads models/model.json. FailedPrecondition, naming the place and what was
// found: a schema version this build does not read, a graph that is not in
// TRAINING form, inputs and outputs other than tensors.
absl::StatusOr<ExportedModule> ParseExportedModule(absl::string_view json);

// The element type of one of torch.export's codes; nullopt if it is none that
// may cross a stage boundary.
std::optional<DType> DTypeOfScalarTypeCode(int64_t code);

// A tensor that lies in the archive, as data/constants describes it.
struct ExportedConstant {
  std::string record;  // "tensor_0"
  bool pickled = false;
  ExportedTensor tensor;
  int64_t storage_offset = 0;
};

// Reads data/constants/model_constants_config.json: constants by name.
absl::StatusOr<std::map<std::string, ExportedConstant>> ParseExportedConstants(
    absl::string_view json);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EXPORTED_GRAPH_H_
