// CloseInheritedFiles: in a forked child, lets go of open files by where they are.
#pragma once

namespace parkade::shim {

// Closes every descriptor of this process whose file's path, as the kernel remembers it, contains
// `part`; also of a file that has been removed. For a child just forked, where no other thread
// exists and any lock may be held: makes system calls alone.
void CloseInheritedFiles(const char* part);

}  // namespace parkade::shim
