// Registry: the objects behind the driver API's opaque handles.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"

namespace parkade::sim {

// A handle is the object's address; a handle that is not known is refused, never followed. Any
// thread.
template <typename T, typename Handle>
class Registry {
 public:
  Handle Add(std::shared_ptr<T> object) {
    const Handle handle = HandleOf(object.get());
    MutexLock lock(mu_);
    objects_[handle] = std::move(object);
    return handle;
  }
  // For handles that outlive their object.
  void AddAs(Handle handle, std::shared_ptr<T> object) {
    MutexLock lock(mu_);
    objects_[handle] = std::move(object);
  }
  // nullptr when the handle is not known.
  std::shared_ptr<T> Find(Handle handle) {
    MutexLock lock(mu_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> Remove(Handle handle) {
    MutexLock lock(mu_);
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  std::vector<std::shared_ptr<T>> All() {
    MutexLock lock(mu_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }
  static Handle HandleOf(const T* object) {
    return reinterpret_cast<Handle>(const_cast<T*>(object));
  }

 private:
  Mutex mu_;
  std::unordered_map<Handle, std::shared_ptr<T>> objects_ GUARDED_BY(mu_);
};

}  // namespace parkade::sim
