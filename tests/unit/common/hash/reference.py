"""The block hash once more, in plain Python after xxHash's specification, to check the fast one against.

`reference.py SEED:BYTES...` prints, for each, the digest of that many bytes of the test's pattern."""

import sys

MASK = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
LEAF, LEAVES, STRIPE, LANES, CONSUME = 4096, 512, 64, 8, 8


def words(data, at, count):
    return [int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little") for i in range(count)]


def seeded_secret(seed):
    out = bytearray()
    for at in range(0, len(SECRET), 16):
        low, high = words(SECRET, at, 2)
        out += ((low + seed) & MASK).to_bytes(8, "little") + ((high - seed) & MASK).to_bytes(8, "little")
    return bytes(out)


def accumulate(acc, stripe, key):
    for i in range(LANES):
        mixed = stripe[i] ^ key[i]
        acc[i ^ 1] = (acc[i ^ 1] + stripe[i]) & MASK
        acc[i] = (acc[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & MASK


def scramble(acc, key):
    for i in range(LANES):
        acc[i] = ((acc[i] ^ (acc[i] >> 47) ^ key[i]) * P32_1) & MASK


def merge(acc, key, start):
    total = start
    for i in range(0, LANES, 2):
        product = (acc[i] ^ key[i]) * (acc[i + 1] ^ key[i + 1])
        total += (product & MASK) ^ (product >> 64)
    total &= MASK
    total = ((total ^ (total >> 37)) * 0x165667919E3779F9) & MASK
    return total ^ (total >> 32)


def xxh3_128_long(data, seed):
    """For more than 240 bytes."""
    secret = seeded_secret(seed) if seed else SECRET
    per_block = (len(secret) - STRIPE) // CONSUME
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    stripes = (len(data) - 1) // STRIPE
    keys = [words(secret, CONSUME * i, LANES) for i in range(per_block)]
    last_key = words(secret, len(secret) - STRIPE, LANES)
    for n in range(stripes):
        accumulate(acc, words(data, n * STRIPE, LANES), keys[n % per_block])
        if n % per_block == per_block - 1 and (n + 1) * STRIPE <= len(data) - 1:
            scramble(acc, last_key)
    accumulate(acc, words(data, len(data) - STRIPE, LANES), words(secret, len(secret) - STRIPE - 7, LANES))
    low = merge(acc, words(secret, 11, LANES), (len(data) * P64_1) & MASK)
    high = merge(acc, words(secret, len(secret) - STRIPE - 11, LANES), ~(len(data) * P64_2) & MASK)
    return low, high


def block(data):
    leaves = b"".join(
        half.to_bytes(8, "little")
        for at in range(0, len(data), LEAF)
        for half in xxh3_128_long(data[at : at + LEAF], 0)
    )
    return xxh3_128_long(leaves.ljust(LEAVES * 16, b"\0"), len(data))


def pattern(seed, size):
    """Words of a 64-bit linear congruence, as the test's own Pattern makes them."""
    state, out = seed, bytearray()
    for _ in range(size // 8):
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        out += state.to_bytes(8, "little")
    return bytes(out)


for request in sys.argv[1:]:
    seed, size = map(int, request.split(":"))
    print("%016x %016x" % block(pattern(seed, size)))
