#include "worker/link_writer.h"

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

v1::WorkerMessage Small(int64_t sequence) {
  v1::WorkerMessage message;
  message.mutable_pong()->set_sequence(sequence);
  return message;
}

v1::WorkerMessage Large(size_t bytes) {
  v1::WorkerMessage message;
  message.mutable_output()->set_data(std::string(bytes, 'x'));
  return message;
}

// A stream that remembers what it was given, and by which thread.
struct Recorder {
  LinkWriter::WriteFn Fn() {
    return [this](const v1::WorkerMessage* message) {
      if (hold != nullptr) hold->WaitForNotification();
      threads.push_back(std::this_thread::get_id());
      if (message == nullptr) {
        ended = true;
      } else {
        sequences.push_back(message->pong().sequence());
      }
      return !broken;
    };
  }

  absl::Notification* hold = nullptr;
  std::vector<int64_t> sequences;
  std::vector<std::thread::id> threads;
  bool ended = false;
  bool broken = false;
};

TEST(LinkWriterTest, SmallMessageIsWrittenByWhoeverGivesIt) {
  Recorder recorder;
  LinkWriter writer({});
  writer.Open(recorder.Fn());

  writer.Send(Small(1));

  EXPECT_EQ(recorder.sequences, (std::vector<int64_t>{1}));
  EXPECT_EQ(recorder.threads[0], std::this_thread::get_id());
}

TEST(LinkWriterTest, MessagesStayInOrderBehindALargeOne) {
  Recorder recorder;
  absl::Notification go_on;
  recorder.hold = &go_on;
  LinkWriter writer({.small_bytes = 100});
  writer.Open(recorder.Fn());

  writer.Send(Large(1000));
  for (int i = 1; i <= 5; ++i) writer.Send(Small(i));
  go_on.Notify();

  EXPECT_TRUE(writer.Finish(absl::Seconds(10)));
  EXPECT_EQ(recorder.sequences, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(recorder.ended);
}

TEST(LinkWriterTest, LargeMessagesWaitForRoomSmallOnesDoNot) {
  Recorder recorder;
  absl::Notification go_on;
  recorder.hold = &go_on;
  LinkWriter writer({.small_bytes = 100, .max_queued_bytes = 500});
  writer.Open(recorder.Fn());
  writer.Send(Large(1000));
  writer.Send(Large(1000));

  std::thread sender([&] { writer.Send(Large(1000)); });
  writer.Send(Small(1));  // returns although nothing is written
  go_on.Notify();
  sender.join();

  EXPECT_TRUE(writer.Finish(absl::Seconds(10)));
  EXPECT_EQ(recorder.sequences.size(), 4);
}

TEST(LinkWriterTest, BrokenStreamDropsMessagesAndFreesWhoeverWaits) {
  Recorder recorder;
  recorder.broken = true;
  LinkWriter writer({.small_bytes = 100, .max_queued_bytes = 500});
  writer.Open(recorder.Fn());

  for (int i = 0; i < 10; ++i) writer.Send(Large(1000));
  writer.Close();
  writer.Send(Small(1));

  EXPECT_LE(recorder.sequences.size(), 1);
}

TEST(LinkWriterTest, NextStreamGetsNothingOfTheOneBefore) {
  Recorder first;
  Recorder second;
  LinkWriter writer({});
  writer.Open(first.Fn());
  writer.Send(Small(1));
  writer.Close();
  writer.Send(Small(2));

  writer.Open(second.Fn());
  writer.Send(Small(3));

  EXPECT_EQ(first.sequences, (std::vector<int64_t>{1}));
  EXPECT_EQ(second.sequences, (std::vector<int64_t>{3}));
}

TEST(LinkWriterTest, FinishGivesUpAStreamThatDoesNotMove) {
  Recorder recorder;
  absl::Notification go_on;
  recorder.hold = &go_on;
  LinkWriter writer({.small_bytes = 100});
  writer.Open(recorder.Fn());
  writer.Send(Large(1000));

  EXPECT_FALSE(writer.Finish(absl::Milliseconds(1)));

  go_on.Notify();
}

}  // namespace
}  // namespace pipestage
