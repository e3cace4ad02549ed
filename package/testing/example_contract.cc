#include "package/testing/example_contract.h"

namespace pipestage {

nlohmann::json ExampleContract() {
  return nlohmann::json::parse(R"json({
    "format": "pipestage.pipeline/1",
    "name": "byte-lm",
    "version": "1",
    "description": "free text",
    "created_by": {"pipestage": "0.1.0", "torch": "2.14.1+cu130"},
    "defaults": {"num_microbatches": 8, "schedule": "GPipe"},
    "sizes": {"rows": {"min": 1, "max": 65536}, "seq": {"min": 2, "max": 512}},
    "inputs": [
      {"name": "tokens", "dtype": "int64", "shape": ["rows", "seq"], "axis": 0},
      {"name": "scale", "dtype": "float32", "shape": [], "axis": null}],
    "targets": [
      {"name": "targets", "dtype": "int64", "shape": ["rows", "seq"], "axis": 0}],
    "outputs": [
      {"name": "logits", "dtype": "float32", "shape": ["rows", "seq", 256],
       "axis": 0}],
    "stages": [
      {"program": {"kind": "export", "file": "stages/0.eval.pt2"},
       "step_program": {"kind": "export", "file": "stages/0.step.pt2"},
       "weights": "weights/0.safetensors",
       "inputs": [
         {"name": "tokens", "dtype": "int64", "shape": ["rows", "seq"],
          "axis": 0}],
       "keyword_inputs": ["scale"],
       "outputs": [
         {"name": "hidden", "dtype": "float32", "shape": ["rows", "seq", 64],
          "axis": 0}]},
      {"program": {"kind": "module", "name": "affine", "params": {"bias": 2.0}},
       "inputs": [
         {"name": "hidden", "dtype": "float32", "shape": ["rows", "seq", 64],
          "axis": 0}],
       "keyword_inputs": [],
       "outputs": [
         {"name": "logits", "dtype": "float32", "shape": ["rows", "seq", 256],
          "axis": 0}]}],
    "loss": {"kind": "cross_entropy", "prediction": "logits",
             "target": "targets", "ignore_index": -1},
    "files": {
      "stages/0.eval.pt2": {"bytes": 12345, "sha256":
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
      "stages/0.step.pt2": {"bytes": 1, "sha256":
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
      "weights/0.safetensors": {"bytes": 0, "sha256":
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}}
  })json");
}

}  // namespace pipestage
