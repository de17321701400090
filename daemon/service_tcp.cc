// Reads certificates with the care that their owners owe them.
#include "daemon/service_tcp.h"

#include <fcntl.h>
#include <grpcpp/security/server_credentials.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/trusted_path.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

absl::Status Bad(const std::string& path, std::string_view why) {
  return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG", Cat(path, " ", why),
              {{"path", path}});
}

// The whole file, in a place and with a mode that keeps other users from changing it.
absl::StatusOr<std::string> ReadPem(const std::string& path, mode_t forbidden) {
  constexpr off_t kMost = 1 << 20;
  const size_t slash = path.rfind('/');
  if (path.empty() || path[0] != '/') return Bad(path, "is not an absolute path");
  const auto dir = OpenTrusted(path.substr(0, slash + 1), PathOwners::kRootOrSelf);
  if (!dir.ok()) {
    const Error& e = dir.error();
    return Bad(path, Cat("cannot be used: ", e.what, e.os_errno ? ": " : "",
                         e.os_errno ? strerror(e.os_errno) : ""));
  }
  // O_NONBLOCK: a fifo must not stop us. The file itself may be a link, as tools that renew
  // certificates make them.
  const Fd file(openat(dir->get(), path.c_str() + slash + 1, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat s;
  if (!file || fstat(file.get(), &s) != 0)
    return Bad(path, Cat("cannot be read: ", strerror(errno)));
  if (!S_ISREG(s.st_mode) || s.st_size > kMost) return Bad(path, "is no PEM file");
  if (s.st_uid != 0 && s.st_uid != geteuid()) {
    return Bad(path, Cat("belongs to user ", s.st_uid, ", who could change it"));
  }
  if ((s.st_mode & forbidden) != 0) {
    return Bad(path, forbidden == 0077 ? "is a key that others may read: chmod 0600"
                                       : "can be changed by others: chmod go-w");
  }
  std::string text(size_t(s.st_size), '\0');
  if (pread(file.get(), text.data(), text.size(), 0) != ssize_t(text.size())) {
    return Bad(path, "cannot be read");
  }
  return text;
}

}  // namespace

absl::StatusOr<Caller> CallerOf(const Authority& authority, const grpc::ServerContext& context) {
  std::vector<std::string> names;
  const auto auth = context.auth_context();
  if (auth != nullptr && auth->IsPeerAuthenticated()) {
    for (const char* property : {"x509_common_name", "x509_subject_alternative_name"}) {
      for (const grpc::string_ref& name : auth->FindPropertyValues(property)) {
        names.emplace_back(name.data(), name.size());
      }
    }
  }
  return authority.CallerOf(context.peer(), names);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TcpCredentials(const TcpConfig& tcp) {
  auto certificate = ReadPem(tcp.certificate, 0022);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadPem(tcp.key, 0077);
  if (!key.ok()) return key.status();
  auto client_ca = ReadPem(tcp.client_ca, 0022);
  if (!client_ca.ok()) return client_ca.status();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = std::move(*client_ca);
  options.pem_key_cert_pairs.push_back({std::move(*key), std::move(*certificate)});
  return grpc::SslServerCredentials(options);
}

void AddTcp(grpc::ServerBuilder& builder, const TcpConfig& tcp,
            std::shared_ptr<grpc::ServerCredentials> credentials, int* port) {
  // Else a second process could listen at the same port and get every other call.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(tcp.listen, std::move(credentials), port);
}

}  // namespace parkade::daemon
