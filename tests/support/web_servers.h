// Servers of other projects that serve a folder, or store objects, on loopback. Each is killed and
// awaited at the end of its scope.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <penstock/internal/posix.h>

#include "tests/support/files.h"
#include "tests/support/find_program.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace penstock::test {

/// A process that listens on a port, with a folder for its files.
class WebServer {
 public:
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int port() const noexcept { return port_; }
  bool ready() const { return listens(port_); }
  std::string errors() const { return read_file(folder_ / "errors"); }

 protected:
  WebServer() : port_(free_port()) {}
  std::string port_text() const { return std::to_string(port_); }
  void start(std::vector<std::string> arguments) { process_.emplace(std::move(arguments)); }

  TempFolder folder_;
  const int port_;

 private:
  std::optional<Process> process_;
};

class Nginx : public WebServer {
 public:
  /// Returns the program; empty if it is not installed (nginx-light).
  static std::string program() {
    for (const char* path : {"/usr/sbin/nginx", "/usr/bin/nginx"})
      if (::access(path, X_OK) == 0) return path;
    return {};
  }
  /// `more`: directives of the server.
  explicit Nginx(const std::string& data, const std::string& more = {}) {
    std::string conf = "daemon off; master_process off; pid " + (folder_ / "pid") + "; error_log " +
                       (folder_ / "errors") + ";\nevents {}\nhttp { access_log off;";
    for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
      conf += std::string(kind) + "_temp_path " + (folder_ / kind) + ";";
    conf += "\nserver { listen 127.0.0.1:" + port_text() + "; root " + data + ";" + more + "}}\n";
    folder_.write("conf", conf);
    start({program(), "-e", folder_ / "errors", "-p", folder_.path(), "-c", folder_ / "conf"});
  }
};

class Lighttpd : public WebServer {
 public:
  /// Returns the program; empty if it is not installed (lighttpd).
  static std::string program() {
    const char* const path = "/usr/sbin/lighttpd";
    return ::access(path, X_OK) == 0 ? path : "";
  }
  explicit Lighttpd(const std::string& data) {
    folder_.write("conf", "server.document-root = \"" + data +
                              "\"\nserver.bind = \"127.0.0.1\"\nserver.port = " + port_text() +
                              "\nserver.errorlog = \"" + (folder_ / "errors") + "\"\n");
    start({program(), "-D", "-f", folder_ / "conf"});
  }
};

class Apache : public WebServer {
 public:
  /// Returns the program; empty if it or one of its modules is not installed (apache2-bin).
  static std::string program() {
    const char* const path = "/usr/sbin/apache2";
    if (::access(path, X_OK) != 0) return {};
    for (const char* module : kModules)
      if (::access(file_of(module).c_str(), R_OK) != 0) return {};
    return path;
  }
  explicit Apache(const std::string& data) {
    std::string conf;
    for (const char* module : kModules)
      conf += std::string("LoadModule ") + module + "_module " + file_of(module) + "\n";
    conf += "Listen 127.0.0.1:" + port_text() + "\nServerName 127.0.0.1\nServerRoot " +
            folder_.path() + "\nPidFile " + (folder_ / "pid") + "\nDefaultRuntimeDir " +
            folder_.path() + "\nErrorLog " + (folder_ / "errors") + "\nDocumentRoot " + data +
            "\nTypesConfig /dev/null\nAddEncoding x-gzip .gz\nUser #65534\nGroup #65534\n";
    folder_.write("conf", conf);
    start({program(), "-D", "FOREGROUND", "-X", "-f", folder_ / "conf"});
  }

 private:
  static constexpr const char* kModules[] = {"mpm_event", "authz_core", "mime", "deflate",
                                             "filter"};
  static std::string file_of(const std::string& module) {
    return "/usr/lib/apache2/modules/mod_" + module + ".so";
  }
};

/// Knows no ranges, and closes each connection, as HTTP 1.0 says.
class PythonServer : public WebServer {
 public:
  static std::string program() { return find_program("python3", "PENSTOCK_PYTHON"); }
  explicit PythonServer(const std::string& data) {
    start(
        {program(), "-m", "http.server", "--bind", "127.0.0.1", "--directory", data, port_text()});
  }
};

/// An object store that speaks S3's protocol, with a bucket named "bucket".
class Moto : public WebServer {
 public:
  static std::string program() { return find_program("moto_server", "PENSTOCK_MOTO"); }
  Moto() { start({program(), "-H", "127.0.0.1", "-p", port_text()}); }
  bool make_bucket() const {
    if (!ready()) return false;
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port_);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      return false;
    const std::string request =
        "PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (write_all(fd.get(), request) != 0) return false;
    std::string answer;
    char piece[4096];
    for (ssize_t n; (n = ::recv(fd.get(), piece, sizeof(piece), 0)) > 0;)
      answer.append(piece, static_cast<std::size_t>(n));
    return answer.starts_with("HTTP/1.1 200");
  }
};

}  // namespace penstock::test
