#include "worker/torch/torch_tensor.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "ATen/ops/arange.h"
#include "ATen/ops/complex.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/imag.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/zeros.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DType kAll[] = {DType::kBool,    DType::kUint8,    DType::kInt8,
                          DType::kInt16,   DType::kInt32,    DType::kInt64,
                          DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                          DType::kFloat64};

StageTensor Floats(Shape shape, Buffer data) {
  return {DType::kFloat32, std::move(shape), std::move(data),
          DeviceKind::kHost};
}

TEST(TorchTensorTest, EveryDTypeGoesThereAndBackOverTheSameBytes) {
  for (const DType dtype : kAll) {
    const StageTensor before{dtype,
                             {2, 3},
                             Buffer::Allocate(6 * ElementSize(dtype)),
                             DeviceKind::kHost};

    const at::Tensor torch = ToTorch(before, c10::kCPU);
    const StageTensor after = FromTorch(torch);

    EXPECT_EQ(torch.sizes(), at::IntArrayRef({2, 3}));
    EXPECT_EQ(after.dtype, dtype) << DTypeName(dtype);
    EXPECT_EQ(after.shape, before.shape);
    EXPECT_EQ(after.data.data(), before.data.data());
    EXPECT_EQ(after.data.size(), before.data.size());
  }
}

TEST(TorchTensorTest, TheTensorKeepsTheBufferAlive) {
  Buffer buffer = Buffer::Allocate(24);
  const std::weak_ptr<const void> watch = buffer.owner();
  at::Tensor torch = ToTorch(Floats({2, 3}, std::move(buffer)), c10::kCPU);
  buffer.Reset();
  EXPECT_FALSE(watch.expired());

  torch = at::Tensor();

  EXPECT_TRUE(watch.expired());
}

TEST(TorchTensorTest, BytesThatAreNotAlignedAreCopied) {
  Buffer buffer = Buffer::Allocate(32);
  const float value = 2.5f;
  std::memcpy(buffer.mutable_data() + 16, &value, sizeof(value));

  const at::Tensor torch = ToTorch(Floats({1}, buffer.Slice(16, 4)), c10::kCPU);

  EXPECT_EQ(torch.item<float>(), 2.5f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(torch.const_data_ptr()) % 64, 0);
}

TEST(TorchTensorTest, EmptyAndScalarTensorsGoBothWays) {
  const StageTensor empty = FromTorch(ToTorch(Floats({0, 3}, {}), c10::kCPU));
  EXPECT_EQ(empty.shape, (Shape{0, 3}));
  EXPECT_TRUE(empty.data.empty());

  const StageTensor scalar = FromTorch(at::ones({}));
  EXPECT_EQ(scalar.shape, Shape{});
  EXPECT_EQ(scalar.data.size(), 4);
}

TEST(CanonicalizeTest, AFreshDenseTensorIsNotCopied) {
  const at::Tensor tensor = at::ones({2, 3});
  StorageSet taken;

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const at::Tensor result,
                                 Canonicalize(tensor, taken));

  EXPECT_EQ(result.const_data_ptr(), tensor.const_data_ptr());
}

TEST(CanonicalizeTest, ViewsStridesAndLazyBitsAreResolved) {
  const at::Tensor base = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor complex = at::complex(base, base);
  for (const at::Tensor& tensor :
       {base.t(), base.slice(0, 1, 2), base.expand({2, 3, 4}),
        at::imag(complex.conj())}) {
    StorageSet taken;

    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const at::Tensor result,
                                   Canonicalize(tensor, taken));

    EXPECT_TRUE(result.is_contiguous());
    EXPECT_FALSE(result.is_neg());
    EXPECT_EQ(result.storage().nbytes(), result.nbytes());
    EXPECT_TRUE(result.equal(tensor));
  }
}

TEST(CanonicalizeTest, WhatSharesStorageWithSomebodyIsCopied) {
  const at::Tensor weight = at::ones({2});
  const at::Tensor input = at::ones({2});
  StorageSet weights;
  weights.Add(weight);
  StorageSet taken(&weights);
  taken.Add(input);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const at::Tensor a,
                                 Canonicalize(weight, taken));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const at::Tensor b,
                                 Canonicalize(input.view({1, 2}), taken));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const at::Tensor c, Canonicalize(b, taken));

  EXPECT_NE(a.const_data_ptr(), weight.const_data_ptr());
  EXPECT_NE(b.const_data_ptr(), input.const_data_ptr());
  EXPECT_NE(c.const_data_ptr(), b.const_data_ptr());
}

TEST(CanonicalizeTest, TensorsThatMayNotLeaveAStageAreNamed) {
  StorageSet taken;
  const at::Tensor real = at::ones({2});

  EXPECT_THAT(Canonicalize(at::complex(real, real), taken),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("ComplexFloat")));
  EXPECT_THAT(Canonicalize(real.to_sparse(), taken),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("Sparse")));
  EXPECT_THAT(Canonicalize(at::Tensor(), taken),
              StatusIs(absl::StatusCode::kAborted));
}

absl::Status Throwing(const std::function<void()>& fn) {
  return CallTorch("stage 1", [&] {
    fn();
    return absl::OkStatus();
  });
}

TEST(CallTorchTest, ExceptionsBecomeStatusesWithoutBacktraces) {
  const absl::Status status = Throwing([] {
    at::ones({2, 3}).mm(at::ones({2, 3}));
  });

  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kAborted,
               AllOf(HasSubstr("stage 1: "), HasSubstr("mat1 and mat2 shapes"),
                     Not(HasSubstr("frame #")), Not(HasSubstr(".cpp")))));
}

TEST(CallTorchTest, RunningOutOfMemoryIsResourceExhausted) {
  EXPECT_THAT(Throwing([] { at::empty({int64_t{1} << 58}); }),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("stage 1: out of memory")));
  EXPECT_THAT(Throwing([] { throw std::bad_alloc(); }),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Throwing([] { throw 1; }), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace pipestage
