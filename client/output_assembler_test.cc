#include "client/output_assembler.h"

#include <string>
#include <utility>

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

v1::OutputHeader Header(const std::string& name, DType dtype, Shape shape) {
  v1::OutputHeader header;
  v1::TensorAnnouncement* announcement = header.add_tensors();
  announcement->set_role(v1::OUTPUT);
  announcement->set_name(name);
  *announcement->mutable_spec() = EncodeSpec(dtype, shape);
  return header;
}

v1::TensorChunk Chunk(int tensor, std::string data) {
  v1::TensorChunk chunk;
  chunk.set_tensor(tensor);
  chunk.set_data(std::move(data));
  return chunk;
}

TEST(OutputAssemblerTest, ChunksOfATensorFollowEachOther) {
  OutputAssembler assembler(/*max_bytes=*/100);
  ASSERT_THAT(assembler.Begin(Header("y", DType::kUint8, {2, 3})), IsOk());

  ASSERT_THAT(assembler.AddChunk(Chunk(0, "abcd")), IsOk());
  ASSERT_THAT(assembler.AddChunk(Chunk(0, "ef")), IsOk());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto outputs, std::move(assembler).Finish());
  ASSERT_EQ(outputs.count("y"), 1u);
  const HostTensor& y = outputs["y"];
  EXPECT_EQ(y.shape, Shape({2, 3}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(y.data.data()), 6),
            "abcdef");
}

TEST(OutputAssemblerTest, ATensorWithoutElementsNeedsNoChunk) {
  OutputAssembler assembler(100);
  ASSERT_THAT(assembler.Begin(Header("y", DType::kFloat32, {0, 3})), IsOk());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto outputs, std::move(assembler).Finish());

  EXPECT_EQ(outputs["y"].shape, Shape({0, 3}));
}

TEST(OutputAssemblerTest, BytesThatDoNotFitTheAnnouncementAreRefused) {
  OutputAssembler assembler(100);
  ASSERT_THAT(assembler.Begin(Header("y", DType::kUint8, {4})), IsOk());

  EXPECT_THAT(assembler.AddChunk(Chunk(0, "abcde")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("which has 4")));
  EXPECT_THAT(assembler.AddChunk(Chunk(1, "a")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("announced 1")));
  EXPECT_THAT(assembler.AddChunk(Chunk(-1, "a")),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(std::move(assembler).Finish(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("sent 0 bytes")));
}

TEST(OutputAssemblerTest, OutputsOverTheLimitAreRefusedBeforeMemoryIsTaken) {
  OutputAssembler assembler(100);

  EXPECT_THAT(assembler.Begin(Header("y", DType::kFloat32, {int64_t{1} << 50})),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("larger than 100 bytes")));
}

TEST(OutputAssemblerTest, AnnouncementsThatMakeNoSenseAreRefused) {
  v1::OutputHeader twice = Header("y", DType::kUint8, {1});
  *twice.add_tensors() = twice.tensors(0);
  EXPECT_THAT(OutputAssembler(100).Begin(twice),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("twice")));

  EXPECT_THAT(OutputAssembler(100).Begin(Header("y", DType::kUint8, {-1})),
              StatusIs(absl::StatusCode::kDataLoss));

  OutputAssembler begun(100);
  ASSERT_THAT(begun.Begin({}), IsOk());
  EXPECT_THAT(begun.Begin({}), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace pipestage
