#include "coordinator/testing/test_models.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"

namespace pipestage {
namespace {

std::string Column(const std::string& name) {
  return absl::StrCat(R"({"name": ")", name,
                      R"(", "dtype": "float64", "shape": ["rows", 1], )",
                      R"("axis": 0})");
}

constexpr char kKeywords[] =
    R"(, {"name": "scale", "dtype": "float64", "shape": [], "axis": null},
       {"name": "offset", "dtype": "float64", "shape": [2, "rows"], "axis": 1})";

std::string Stage(const TestModel& model, int stage) {
  const bool is_last = stage + 1 == model.num_stages;
  return absl::StrCat(
      R"({"program": {"kind": "module", "name": "digit", "params": {"bias": )",
      stage + 1, R"(}}, "inputs": [)",
      Column(stage == 0 ? "x" : absl::StrCat("h", stage)),
      R"(], "keyword_inputs": )",
      model.with_keywords && is_last ? R"(["scale", "offset"])" : "[]",
      R"(, "outputs": [)", Column(is_last ? "y" : absl::StrCat("h", stage + 1)),
      "]}");
}

std::string Contract(const TestModel& model) {
  std::vector<std::string> stages;
  for (int s = 0; s < model.num_stages; ++s) stages.push_back(Stage(model, s));
  return absl::StrCat(
      R"({"format": "pipestage.pipeline/1", "name": ")", model.name,
      R"(", "version": ")", model.version,
      R"(", "defaults": {"num_microbatches": 4, "schedule": "1F1B"},
        "inputs": [)",
      Column("x"), model.with_keywords ? kKeywords : "", R"(], "targets": [)",
      model.with_loss ? Column("t") : "", R"(], "outputs": [)", Column("y"),
      R"(], "stages": [)", absl::StrJoin(stages, ", "), "]",
      model.with_loss ? R"(, "loss": {"kind": "mean_squared_error",
                             "prediction": "y", "target": "t"})"
                      : "",
      R"(, "files": {}})");
}

}  // namespace

void WriteTestModel(const std::string& repository, const TestModel& model) {
  const auto directory =
      std::filesystem::path(repository) / model.name / model.version;
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "pipeline.json") << Contract(model);
}

double DigitsOf(double x, int num_stages) {
  for (int s = 0; s < num_stages; ++s) x = 10 * x + (s + 1);
  return x;
}

v1::Tensor Float64Tensor(const std::vector<int64_t>& shape,
                         const std::vector<double>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::FLOAT64);
  for (const int64_t size : shape) tensor.add_shape(size);
  tensor.set_data(values.data(), values.size() * sizeof(double));
  return tensor;
}

std::vector<double> ValuesOf(const v1::Tensor& tensor) {
  std::vector<double> values(tensor.data().size() / sizeof(double));
  std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
  return values;
}

v1::Tensor Rows(int count, double base) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(base + i);
  return Float64Tensor({count, 1}, values);
}

std::string MakeTempDir() {
  const char* root = std::getenv("TEST_TMPDIR");
  std::string pattern =
      absl::StrCat(root == nullptr ? "/tmp" : root, "/pipestageXXXXXX");
  PIPESTAGE_CHECK(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

}  // namespace pipestage
