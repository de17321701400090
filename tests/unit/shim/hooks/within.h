// A wait of the tests, for what other threads do.
#pragma once

#include <chrono>
#include <thread>

template <typename Condition>
bool Within10s(Condition condition) {
  const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > by) return false;
    std::this_thread::yield();
  }
  return true;
}
