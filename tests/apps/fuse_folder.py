"""A FUSE file system that shows one folder at another place, for tests of disk I/O on one: `fuse_folder.py
FOLDER TARGET` mounts it, says `mounted`, and serves until it is unmounted. Needs root and /dev/fuse. One thread."""

import ctypes
import errno
import os
import struct
import sys

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
MAX_WRITE = 1 << 20
SET_MODE, SET_OWNER, SET_GROUP, SET_SIZE = 1, 2, 4, 8
MAX_PAGES = 1 << 22  # flag: max_pages is meant

LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 9, 10, 11, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, CREATE, INTERRUPT, DESTROY, BATCH_FORGET, FALLOCATE = (
    20, 25, 26, 27, 28, 29, 34, 35, 36, 38, 42, 43,
)


class Folder:
    """The answers. A node is a path of the folder beneath; a file handle is a descriptor."""

    def __init__(self, root):
        self.paths = {1: root}
        self.nodes = {root: 1}

    def node(self, path):
        if path not in self.nodes:
            self.nodes[path] = len(self.paths) + 1
            self.paths[self.nodes[path]] = path
        return self.nodes[path]

    def attributes(self, path, node):
        s = os.lstat(path)
        return ATTRIBUTES.pack(
            node, s.st_size, s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime), 0, 0, 0,
            s.st_mode, s.st_nlink, s.st_uid, s.st_gid, 0, s.st_blksize, 0,
        )

    def entry(self, path):
        attributes = self.attributes(path, self.node(path))  # fails first where there is none
        return struct.pack("<QQQQII", self.node(path), 0, 0, 0, 0, 0) + attributes

    def child(self, node, name):
        return os.path.join(self.paths[node], name.rstrip(b"\0").decode())

    def forget_path(self, path):
        """The name may come back with another file behind it."""
        if path in self.nodes:
            del self.nodes[path]

    def answer(self, opcode, node, body, uid, gid):
        path = self.paths.get(node)
        if opcode == INIT:
            flags = struct.unpack_from("<IIII", body)[3] & MAX_PAGES
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, flags, 16, 12, MAX_WRITE, 1, MAX_WRITE // 4096, 0, 0)
        if opcode == LOOKUP:
            return self.entry(self.child(node, body))
        if opcode == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(path, node)
        if opcode == SETATTR:
            valid, size = struct.unpack_from("<I12xQ", body)
            mode, owner, group = struct.unpack_from("<I4xII", body, 68)
            if valid & SET_MODE:
                os.chmod(path, mode & 0o7777)
            if valid & SET_OWNER or valid & SET_GROUP:
                os.chown(path, owner if valid & SET_OWNER else -1, group if valid & SET_GROUP else -1)
            if valid & SET_SIZE:
                os.truncate(path, size)
            return struct.pack("<QII", 0, 0, 0) + self.attributes(path, node)
        if opcode == MKDIR:
            made = self.child(node, body[8:])
            os.mkdir(made, struct.unpack_from("<I", body)[0] & 0o7777)
            os.chown(made, uid, gid)
            return self.entry(made)
        if opcode in (UNLINK, RMDIR):
            gone = self.child(node, body)
            (os.unlink if opcode == UNLINK else os.rmdir)(gone)
            self.forget_path(gone)
            return b""
        if opcode == CREATE:
            flags, mode = struct.unpack_from("<II", body)
            made = self.child(node, body[16:])
            descriptor = os.open(made, flags & ~os.O_DIRECT | os.O_CREAT, mode & 0o7777)
            os.chown(made, uid, gid)
            return self.entry(made) + struct.pack("<QII", descriptor, 0, 0)
        if opcode == OPEN:
            return struct.pack("<QII", os.open(path, struct.unpack_from("<I", body)[0] & os.O_ACCMODE), 0, 0)
        if opcode == OPENDIR:
            return struct.pack("<QII", 0, 0, 0)
        if opcode == READ:
            handle, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(handle, size, offset)
        if opcode == WRITE:
            handle, offset, size = struct.unpack_from("<QQI", body)
            return struct.pack("<II", os.pwrite(handle, body[40:40 + size], offset), 0)
        if opcode == FALLOCATE:
            handle, offset, length = struct.unpack_from("<QQQ", body)
            os.posix_fallocate(handle, offset, length)
            return b""
        if opcode == READDIR:
            first = struct.unpack_from("<QQ", body)[1]
            names = [".", "..", *sorted(os.listdir(path))]
            entries = b""
            for number, name in list(enumerate(names))[first:]:
                text = name.encode()
                one = struct.pack("<QQII", 1, number + 1, len(text), 0) + text
                entries += one + b"\0" * (-len(one) % 8)
            return entries[:struct.unpack_from("<I", body, 16)[0]]
        if opcode == STATFS:
            s = os.statvfs(path)
            return struct.pack("<QQQQQIII28x", s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, s.f_bsize, 255, s.f_frsize)
        if opcode == RELEASE:
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if opcode in (FLUSH, FSYNC, RELEASEDIR, ACCESS, DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "not served")


def main(folder, target):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions"
    if libc.mount(b"fuse_folder", target.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"fuse_folder: mounting {target}: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    served = Folder(folder)
    while True:
        try:
            request = os.read(device, MAX_WRITE + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            raise
        _, opcode, unique, node, uid, gid, *_ = IN_HEADER.unpack_from(request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):  # which have no answer
            continue
        code, body = 0, b""
        try:
            body = served.answer(opcode, node, request[IN_HEADER.size:], uid, gid)
        except OSError as error:
            code = -error.errno
        os.write(device, OUT_HEADER.pack(OUT_HEADER.size + len(body), code, unique) + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
