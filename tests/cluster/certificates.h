// Certificates for tests.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

namespace penstock::cluster::test {

/// Makes certificates for these names with the program openssl: rank.pem, signed by ca.pem, and
/// stranger.pem, signed by other-ca.pem, with their keys. False if openssl is missing.
inline bool make_certificates(const std::string& folder,
                              const std::string& names = "IP:127.0.0.1") {
  const std::string in = "cd '" + folder + "' && ";
  const std::string quiet = " >/dev/null 2>&1";
  for (const char* name : {"ca", "other-ca"})
    if (std::system((in +
                     "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
                     "-subj /CN=" +
                     name + " -keyout " + name + ".key -out " + name + ".pem" + quiet)
                        .c_str()) != 0)
      return false;
  for (const auto& [name, authority] :
       {std::pair("rank", "ca"), std::pair("stranger", "other-ca")}) {
    const std::string n = name;
    const std::string ca = authority;
    std::ofstream(folder + "/ext") << "subjectAltName=" << names << "\n";
    if (std::system(
            (in + "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + n +
             " -keyout " + n + ".key -out " + n + ".csr" + quiet + " && openssl x509 -req -in " +
             n + ".csr -days 2 -CA " + ca + ".pem -CAkey " + ca +
             ".key -CAcreateserial -extfile ext -out " + n + ".pem" + quiet)
                .c_str()) != 0)
      return false;
  }
  return true;
}

}  // namespace penstock::cluster::test
