// InShim: marks that this thread is inside the shim, so that a hooked call from there is ours.
#pragma once

namespace parkade::shim {

// While one lives, the hooks of this thread pass calls straight to the driver. Nests.
class InShim {
 public:
  InShim() { ++depth_; }
  ~InShim() { --depth_; }
  InShim(const InShim&) = delete;
  InShim& operator=(const InShim&) = delete;

  static bool Active() { return depth_ != 0; }

 private:
  static inline thread_local constinit unsigned depth_ = 0;
};

}  // namespace parkade::shim
