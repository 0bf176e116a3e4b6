//! Address space, sharing, NUMA policy and futexes.
//! Columns: name, number on x86_64, on aarch64, on i386 (`-`: not there), verdict, reason. Sorted by name.

use super::calls;

calls! {
    brk                       12 214  45 Allow                "grows the heap";
    futex                    202  98 240 Allow                "every lock of every threaded program";
    futex_requeue            456 456 456 Allow                "futex with explicit sizes";
    futex_time64               -   - 422 Allow                "futex after 2038";
    futex_wait               455 455 455 Allow                "futex with explicit sizes";
    futex_waitv              449 449 449 Allow                "waits for several futexes";
    futex_wake               454 454 454 Allow                "futex with explicit sizes";
    get_mempolicy            239 236 275 Allow                "reads the own NUMA policy; numpy and JVMs do";
    get_robust_list          274 100 312 Allow                "a pointer of a process the caller may inspect; guard is not dumpable";
    madvise                   28 233 219 Allow                "memory hints; every allocator";
    map_shadow_stack         453 453 453 Allow                "hardware shadow stack of a new thread";
    mbind                    237 235 274 Allow                "NUMA policy of own memory";
    membarrier               324 283 375 Allow                "memory barrier among own threads; JVM, Go";
    memfd_create             319 279 356 Allow                "anonymous file; compilers, JITs, wayland";
    memfd_secret             447 447 447 Closed               "memory that neither a limit's reclaim nor an operator can look into";
    migrate_pages            256 238 294 Closed               "moves another process's memory between nodes";
    mincore                   27 232 218 Allow                "which own pages are resident";
    mlock                    149 228 150 Allow                "pins memory, bounded by RLIMIT_MEMLOCK; key handling";
    mlock2                   325 284 376 Allow                "mlock with flags";
    mlockall                 151 230 152 Allow                "pins all memory, bounded by RLIMIT_MEMLOCK";
    mmap                       9 222  90 Allow                "maps files and memory";
    mmap2                      -   - 192 Allow                "mmap with page offsets";
    move_pages               279 239 317 Closed               "moves another process's memory between nodes";
    mprotect                  10 226 125 Allow                "page protection; JITs need executable pages";
    mremap                    25 216 163 Allow                "resizes a mapping; realloc";
    mseal                    462 462 462 Allow                "seals own mappings; only takes rights away";
    msync                     26 227 144 Allow                "flushes a mapping";
    munlock                  150 229 151 Allow                "undoes mlock";
    munlockall               152 231 153 Allow                "undoes mlockall";
    munmap                    11 215  91 Allow                "removes a mapping";
    pkey_alloc               330 289 381 Allow                "memory protection keys of the own process";
    pkey_free                331 290 382 Allow                "returns a protection key";
    pkey_mprotect            329 288 380 Allow                "mprotect with a protection key";
    process_madvise          440 440 440 Closed               "gives memory hints to another process";
    process_mrelease         448 448 448 Closed               "reaps another process's memory";
    process_vm_readv         310 270 347 Closed               "reads another process's memory; guard and other commands share the uid";
    process_vm_writev        311 271 348 Closed               "writes another process's memory";
    remap_file_pages         216 234 257 Allow                "old non-linear mapping; emulated by the kernel";
    set_mempolicy            238 237 276 Allow                "NUMA policy of the own thread";
    set_mempolicy_home_node  450 450 450 Allow                "NUMA home node of own memory";
    set_robust_list          273  99 311 Allow                "registers a thread's lock list; every thread of libc";
    userfaultfd              323 282 374 Closed               "page faults handled in user space: makes kernel races easy to win";
}
