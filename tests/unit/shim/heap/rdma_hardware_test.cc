// What counts as hardware that registers GPU memory.
#include "shim/heap/rdma_hardware.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/unit/daemon/test_dir.h"

namespace parkade::shim {
namespace {

TEST_CASE("an RDMA device, gdrcopy's and GPUDirect Storage's drivers are found") {
  const testing::TestDir root;
  const std::filesystem::path at = root.path();
  CHECK_FALSE(HasRdmaHardware(root.path()));
  std::filesystem::create_directories(at / "sys/class/infiniband");
  CHECK_FALSE(HasRdmaHardware(root.path()));  // the modules without a device
  std::filesystem::create_directories(at / "sys/class/infiniband/mlx5_0");
  CHECK(HasRdmaHardware(root.path()));
  std::filesystem::remove_all(at / "sys");
  std::filesystem::create_directories(at / "dev");
  std::ofstream(at / "dev/gdrdrv") << "";
  CHECK(HasRdmaHardware(root.path()));
  std::filesystem::remove_all(at / "dev");
  std::filesystem::create_directories(at / "proc/driver/nvidia-fs");
  CHECK(HasRdmaHardware(root.path()));
}

}  // namespace
}  // namespace parkade::shim
