#include "worker/transport/tcp_mesh.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

constexpr int kSecretSize = 32;
using Secret = std::array<char, kSecretSize>;

// The first bytes on a connection, either way: the dialler shows the listener's
// secret, the listener answers with the dialler's.
struct Hello {
  std::array<char, 8> magic;
  Secret secret;
  int32_t rank;  // of who says hello; both ends are of one build and byte order
  int32_t lane;
};
constexpr std::array<char, 8> kMagic = {'P', 'S', 'T', 'C', 'P', '0', '0', '1'};

// Comparing takes as long whatever differs.
bool SameSecret(const Secret& a, const Secret& b) {
  unsigned difference = 0;
  for (int i = 0; i < kSecretSize; ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

absl::Status ErrnoError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

absl::StatusOr<Address> Resolve(const std::string& host,
                                const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      host.c_str(), port.empty() ? nullptr : port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host \"", host, "\" has no address: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 freeaddrinfo);
  Address address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  return address;
}

absl::StatusOr<Address> ResolveInterface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return ErrnoError("listing network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found,
                                                               freeifaddrs);
  for (const ifaddrs* i = found; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || name != i->ifa_name) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Address address;
    address.size =
        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, i->ifa_addr, address.size);
    return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("network interface \"", name, "\" has no IP address"));
}

// "host port" of a bound socket, in numbers.
absl::StatusOr<std::string> NameOf(int fd) {
  Address address;
  address.size = sizeof(address.storage);
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getsockname(fd, address.get(), &address.size) != 0 ||
      getnameinfo(address.get(), address.size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return ErrnoError("naming the listening socket");
  }
  return absl::StrCat(host, " ", port);
}

// Blocks until the socket is ready for `events` or the time is over.
absl::Status AwaitReady(int fd, short events, absl::Time deadline,
                        absl::string_view what) {
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(what, " was not done in time"));
    }
    pollfd entry = {fd, events, 0};
    const int n = poll(&entry, 1, absl::ToInt64Milliseconds(left) + 1);
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno != EINTR) return ErrnoError(what);
  }
}

// Moves all of [data, data + size) over a non-blocking socket.
template <typename Move>
absl::Status MoveAll(int fd, size_t size, short events, absl::Time deadline,
                     absl::string_view what, Move move) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = move(done);
    if (n > 0) {
      done += n;
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      PIPESTAGE_RETURN_IF_ERROR(AwaitReady(fd, events, deadline, what));
    } else {
      if (n == 0) errno = ECONNRESET;
      return ErrnoError(what);
    }
  }
  return absl::OkStatus();
}

class MeshBuilder {
 public:
  MeshBuilder(const CommunicatorOptions& options, int lanes)
      : options_(options),
        lanes_(lanes),
        deadline_(absl::Now() + options.timeout),
        peers_(options.size),
        sockets_(lanes * options.size) {}

  absl::StatusOr<std::vector<UniqueFd>> Build() {
    PIPESTAGE_RETURN_IF_ERROR(Listen());
    PIPESTAGE_RETURN_IF_ERROR(Publish());
    for (int rank = 0; rank < options_.size; ++rank) {
      if (Rank(rank) == options_.rank) continue;
      PIPESTAGE_RETURN_IF_ERROR(LookUp(rank));
    }
    for (int peer = 0; peer < options_.rank.value(); ++peer) {
      for (int lane = 0; lane < lanes_; ++lane) {
        absl::Status status = Dial(peer, lane);
        if (!status.ok()) {
          return absl::Status(status.code(),
                              absl::StrCat("connecting to rank ", peer, ": ",
                                           status.message()));
        }
      }
    }
    PIPESTAGE_RETURN_IF_ERROR(AcceptAll());
    return std::move(sockets_);
  }

 private:
  struct Peer {
    std::string host;
    std::string port;
    Secret secret;
  };

  // A connection whose hello has not come whole.
  struct Caller {
    UniqueFd fd;
    size_t received = 0;
    Hello hello;
  };

  std::string Key(int rank) const {
    return absl::StrCat(options_.prefix, "/tcp/", rank);
  }

  absl::Status Listen() {
    PIPESTAGE_ASSIGN_OR_RETURN(
        const Address address,
        options_.network_interface.empty()
            ? Resolve(options_.host, "")
            : ResolveInterface(options_.network_interface));
    listener_ = UniqueFd(socket(address.get()->sa_family,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener_.is_open()) return ErrnoError("making a socket");
    if (bind(listener_.get(), address.get(), address.size) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      return ErrnoError(
          absl::StrCat("listening at host \"", options_.host, "\""));
    }
    return absl::OkStatus();
  }

  absl::Status Publish() {
    if (getrandom(secret_.data(), secret_.size(), 0) != kSecretSize) {
      return ErrnoError("making a secret");
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string name, NameOf(listener_.get()));
    return options_.rendezvous->Set(
        Key(options_.rank.value()),
        absl::StrCat(name, " ",
                     absl::BytesToHexString(
                         absl::string_view(secret_.data(), kSecretSize))));
  }

  absl::Status LookUp(int rank) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        const std::string value,
        options_.rendezvous->Get(Key(rank), std::max(deadline_ - absl::Now(),
                                                     absl::ZeroDuration())));
    const std::vector<std::string> fields = absl::StrSplit(value, ' ');
    std::string secret;
    if (fields.size() == 3) secret = absl::HexStringToBytes(fields[2]);
    if (secret.size() != kSecretSize) {
      return absl::InternalError(
          absl::StrCat("rank ", rank, " published no address of this kind"));
    }
    peers_[rank].host = fields[0];
    peers_[rank].port = fields[1];
    std::memcpy(peers_[rank].secret.data(), secret.data(), kSecretSize);
    return absl::OkStatus();
  }

  absl::Status Dial(int peer, int lane) {
    PIPESTAGE_ASSIGN_OR_RETURN(const Address address,
                               Resolve(peers_[peer].host, peers_[peer].port));
    UniqueFd fd(socket(address.get()->sa_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) return ErrnoError("making a socket");
    if (connect(fd.get(), address.get(), address.size) != 0) {
      if (errno != EINPROGRESS) return ErrnoError("connecting");
      PIPESTAGE_RETURN_IF_ERROR(
          AwaitReady(fd.get(), POLLOUT, deadline_, "connecting"));
      socklen_t size = sizeof(errno);
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &errno, &size);
      if (errno != 0) return ErrnoError("connecting");
    }
    PIPESTAGE_RETURN_IF_ERROR(SayHello(fd.get(), peer, lane));
    Hello answer;
    PIPESTAGE_RETURN_IF_ERROR(
        MoveAll(fd.get(), sizeof(answer), POLLIN, deadline_,
                "waiting for its answer", [&](size_t done) {
                  return recv(fd.get(), reinterpret_cast<char*>(&answer) + done,
                              sizeof(answer) - done, 0);
                }));
    if (!IsGenuine(answer) || answer.rank != peer || answer.lane != lane) {
      return absl::UnavailableError("whoever listens there is not that rank");
    }
    return Keep(std::move(fd), peer, lane);
  }

  absl::Status SayHello(int fd, int peer, int lane) {
    const Hello hello = {kMagic, peers_[peer].secret, options_.rank.value(),
                         lane};
    return MoveAll(fd, sizeof(hello), POLLOUT, deadline_, "saying hello",
                   [&](size_t done) {
                     return send(fd,
                                 reinterpret_cast<const char*>(&hello) + done,
                                 sizeof(hello) - done, MSG_NOSIGNAL);
                   });
  }

  bool IsGenuine(const Hello& hello) const {
    return hello.magic == kMagic && SameSecret(hello.secret, secret_);
  }

  // Takes connections until every higher rank has shown itself on every lane.
  // One that says nothing, or not our secret, keeps no other waiting.
  absl::Status AcceptAll() {
    int missing = lanes_ * (options_.size - 1 - options_.rank.value());
    std::vector<Caller> callers;
    while (missing > 0) {
      PIPESTAGE_RETURN_IF_ERROR(AwaitCallers(callers));
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.is_open()) {
        if (callers.size() == kMaxCallers) callers.erase(callers.begin());
        callers.push_back({std::move(fd), 0, Hello()});
      }
      for (size_t i = 0; i < callers.size();) {
        if (!Hear(callers[i])) {
          ++i;
          continue;
        }
        if (IsWanted(callers[i])) {
          const Hello& hello = callers[i].hello;
          PIPESTAGE_RETURN_IF_ERROR(
              SayHello(callers[i].fd.get(), hello.rank, hello.lane));
          PIPESTAGE_RETURN_IF_ERROR(
              Keep(std::move(callers[i].fd), hello.rank, hello.lane));
          --missing;
        }
        callers.erase(callers.begin() + i);
      }
    }
    return absl::OkStatus();
  }

  absl::Status AwaitCallers(const std::vector<Caller>& callers) {
    std::vector<pollfd> entries = {{listener_.get(), POLLIN, 0}};
    for (const Caller& caller : callers) {
      entries.push_back({caller.fd.get(), POLLIN, 0});
    }
    const absl::Duration left = deadline_ - absl::Now();
    if (left > absl::ZeroDuration()) {
      const int n = poll(entries.data(), entries.size(),
                         absl::ToInt64Milliseconds(left) + 1);
      if (n > 0 || (n < 0 && errno == EINTR)) return absl::OkStatus();
      if (n < 0) return ErrnoError("waiting for higher ranks");
    }
    return absl::DeadlineExceededError(absl::StrCat(
        "a rank above ", options_.rank.value(), " of ", options_.size,
        " did not connect within ", absl::FormatDuration(options_.timeout)));
  }

  // True when the hello is whole or will never be.
  static bool Hear(Caller& caller) {
    char* const begin = reinterpret_cast<char*>(&caller.hello);
    const ssize_t n = recv(caller.fd.get(), begin + caller.received,
                           sizeof(Hello) - caller.received, 0);
    if (n > 0) {
      caller.received += n;
      return caller.received == sizeof(Hello);
    }
    return n == 0 || (errno != EAGAIN && errno != EINTR);
  }

  bool IsWanted(const Caller& caller) const {
    const Hello& hello = caller.hello;
    return caller.received == sizeof(Hello) && IsGenuine(hello) &&
           hello.rank > options_.rank.value() && hello.rank < options_.size &&
           hello.lane >= 0 && hello.lane < lanes_ &&
           !sockets_[hello.lane * options_.size + hello.rank].is_open();
  }

  absl::Status Keep(UniqueFd fd, int peer, int lane) {
    const int one = 1;
    if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) !=
        0) {
      return ErrnoError("setting TCP_NODELAY");
    }
    sockets_[lane * options_.size + peer] = std::move(fd);
    return absl::OkStatus();
  }

  static constexpr size_t kMaxCallers = 64;

  const CommunicatorOptions& options_;
  const int lanes_;
  const absl::Time deadline_;
  UniqueFd listener_;
  Secret secret_;
  std::vector<Peer> peers_;
  std::vector<UniqueFd> sockets_;
};

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> ConnectTcpMesh(
    const CommunicatorOptions& options, int lanes) {
  return MeshBuilder(options, lanes).Build();
}

}  // namespace pipestage
