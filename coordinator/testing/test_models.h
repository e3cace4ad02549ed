#ifndef PIPESTAGE_COORDINATOR_TESTING_TEST_MODELS_H_
#define PIPESTAGE_COORDINATOR_TESTING_TEST_MODELS_H_

#include <string>
#include <vector>

#include "proto/tensor.pb.h"

namespace pipestage {

struct TestModel {
  std::string name = "digits";
  std::string version = "1";
  int num_stages = 2;
  bool with_loss = false;
  // Keyword inputs of the last stage: "scale", a replicated number, and
  // "offset", [2, rows], split on axis 1.
  bool with_keywords = false;
};

// Writes the package that FakeWorkers execute: "x" [rows, 1] float64 to "y",
// and with a loss the target "t".
void WriteTestModel(const std::string& repository, const TestModel& model);

// What the model makes of one number, without keywords.
double DigitsOf(double x, int num_stages);

v1::Tensor Float64Tensor(const std::vector<int64_t>& shape,
                         const std::vector<double>& values);
std::vector<double> ValuesOf(const v1::Tensor& tensor);
// [count, 1]: base, base + 1, ...
v1::Tensor Rows(int count, double base = 0);

// A new, empty folder for one test.
std::string MakeTempDir();

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_TEST_MODELS_H_
