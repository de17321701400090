// Chooses the engine.
#include "common/io/io_engine.h"

#include <utility>

#include "common/io/pool_engine.h"
#include "common/io/uring_engine.h"

namespace parkade {

IoEngineChoice MakeIoEngine(uint32_t depth, std::unique_ptr<ThreadStarter> threads) {
  IoEngineChoice choice;
  if (auto uring = UringEngine::Create(depth); uring.ok()) {
    choice.engine = std::move(*uring);
  } else {
    choice.uring_refusal = uring.error();
    choice.engine = std::make_unique<PoolEngine>(depth, std::move(threads));
  }
  return choice;
}

}  // namespace parkade
