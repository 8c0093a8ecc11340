// The user at the other end of a connection on this machine.
#pragma once

namespace penstock::cluster {

/// Returns true if the other end of a TCP connection is a socket of this machine that belongs
/// neither to this process's user nor to root. Returns false where the kernel does not tell.
bool is_of_another_user(int fd) noexcept;

}  // namespace penstock::cluster
