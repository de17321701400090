// ChildSockets: descriptors that a forked child must not keep, since the other side would take it
// for the parent.
#pragma once

namespace parkade::shim {

class ChildSockets {
 public:
  // Any thread; locks nothing. Beyond a thousand at a time they are not noted, and stay open in a
  // child until it ends or calls exec.
  static void Add(int fd);
  static void Remove(int fd);

  // In the child. System calls alone.
  static void CloseAll();
};

}  // namespace parkade::shim
