// Orders against PyTorch's own, over a grid: see testdata/pytorch_orders.py.

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/passes/add_send_recv.h"
#include "schedule/placement.h"
#include "schedule/schedule_registry.h"

namespace pipestage {
namespace {

struct PyTorchOrder {
  std::string schedule;
  ScheduleShape shape;
  std::string compute_digest;
  std::string lowered_digest;
};

std::vector<PyTorchOrder> ReadOrders() {
  std::ifstream file("schedule/testdata/pytorch_orders.csv");
  std::vector<PyTorchOrder> orders;
  std::string line;
  std::getline(file, line);  // names of the columns
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    PyTorchOrder order;
    order.schedule = cells.at(0);
    EXPECT_TRUE(absl::SimpleAtoi(cells.at(1), &order.shape.num_ranks));
    EXPECT_TRUE(absl::SimpleAtoi(cells.at(2), &order.shape.stages_per_rank));
    EXPECT_TRUE(absl::SimpleAtoi(cells.at(3), &order.shape.num_microbatches));
    order.compute_digest = cells.at(4);
    order.lowered_digest = cells.at(5);
    orders.push_back(order);
  }
  return orders;
}

std::string Digest(const ActionRows& rows) {
  return Sha256Hex(ToCsv(rows)).substr(0, 16);
}

TEST(PyTorchOrderTest, ComputeAndLoweredRowsAreThoseOfPyTorch) {
  const std::vector<PyTorchOrder> orders = ReadOrders();
  ASSERT_GT(orders.size(), 1000u);
  for (const PyTorchOrder& order : orders) {
    const ScheduleShape& shape = order.shape;
    SCOPED_TRACE(absl::StrCat(order.schedule, " P=", shape.num_ranks,
                              " V=", shape.stages_per_rank,
                              " M=", shape.num_microbatches));
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Schedule* schedule,
                                   FindSchedule(order.schedule));
    const ActionRows rows = schedule->generate(shape);

    EXPECT_EQ(Digest(rows), order.compute_digest);
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        ActionRows lowered,
        AddSendRecv(rows,
                    PlaceStages(schedule->placement, shape.num_ranks,
                                shape.stages_per_rank),
                    shape.num_microbatches));
    EXPECT_EQ(Digest(lowered), order.lowered_digest);
  }
}

TEST(PyTorchOrderTest, TrainingOrdersThatPyTorchRefusesDoNotWaitForThemselves) {
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int p = 1; p <= 6; ++p) {
      for (int v = 1; v <= 4; ++v) {
        if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
        for (int m = 1; m <= 20; ++m) {
          EXPECT_THAT(AddSendRecv(schedule.generate({p, v, m}),
                                  PlaceStages(schedule.placement, p, v), m),
                      IsOk())
              << schedule.name << " " << p << " " << v << " " << m;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipestage
