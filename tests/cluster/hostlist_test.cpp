// Slurm's lists of hosts: every form, how much is made of them, and Slurm's own answer.
#include "cluster/hostlist.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/error.h>

#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using Hosts = std::vector<std::string>;

constexpr std::size_t kAll = 1'000'000;

struct Form {
  const char* name;
  std::string list;
  Hosts hosts;
  bool slurm_too = true;  ///< false: Slurm 22.05 does not accept it

  friend void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
};

std::vector<Form> forms() {
  return {
      {"one", "node7", {"node7"}},
      {"several", "alpha,beta-2,gamma.example", {"alpha", "beta-2", "gamma.example"}},
      {"range", "node[1-3]", {"node1", "node2", "node3"}},
      {"padded", "node[08-11]", {"node08", "node09", "node10", "node11"}},
      {"padded_at_the_start_only", "n[8-011]", {"n8", "n9", "n10", "n11"}},
      {"more_digits_than_padding", "n[98-101]", {"n98", "n99", "n100", "n101"}},
      {"two_widths", "n[1,01-02,001]", {"n1", "n01", "n02", "n001"}},
      {"list_in_brackets", "n[3,5-6,9]", {"n3", "n5", "n6", "n9"}},
      {"commas_inside_and_outside",
       "a[1,3],b,c[2,4-5],d1",
       {"a1", "a3", "b", "c2", "c4", "c5", "d1"}},
      {"two_brackets",
       "rack[1-2]node[01-03]",
       {"rack1node01", "rack1node02", "rack1node03", "rack2node01", "rack2node02", "rack2node03"}},
      {"adjacent_brackets", "n[1-2][3,5]", {"n13", "n15", "n23", "n25"}},
      {"three_brackets",
       "x[1-2]y[3-4]z[5-6]",
       {"x1y3z5", "x1y3z6", "x2y3z5", "x2y3z6", "x1y4z5", "x1y4z6", "x2y4z5", "x2y4z6"}},
      {"four_brackets",
       "a[1-2]b[3]c[4-5]d[6-7]",
       {"a1b3c4d6", "a1b3c4d7", "a2b3c4d6", "a2b3c4d7", "a1b3c5d6", "a1b3c5d7", "a2b3c5d6",
        "a2b3c5d7"}},
      {"brackets_alone", "[1-2],[07]", {"1", "2", "07"}},
      {"twice", "n[1-2,2],n1", {"n1", "n2", "n2", "n1"}},
      {"blanks_between", " a  b,,c\td[1-2] ,", {"a", "b", "c", "d1", "d2"}},
      {"a_dash_outside", "c427-032,host1-3", {"c427-032", "host1-3"}},
      {"large_numbers",
       "n[4294967295-4294967297],m[18446744073709551615]",
       {"n4294967295", "n4294967296", "n4294967297", "m18446744073709551615"}},
      {"text_behind", "n[1-2]-ib,m[3]x", {"n1-ib", "n2-ib", "m3x"}, false},
      {"text_behind_two",
       "r[1-2]n[3-4].hpc",
       {"r1n3.hpc", "r1n4.hpc", "r2n3.hpc", "r2n4.hpc"},
       false},
  };
}

class HostList : public testing::TestWithParam<Form> {};

TEST_P(HostList, IsExpanded) {
  const Form& form = GetParam();
  EXPECT_EQ(hosts_in(form.list, kAll, "LIST"), form.hosts);
  for (std::size_t most = 0; most <= form.hosts.size(); ++most)
    EXPECT_EQ(hosts_in(form.list, most, "LIST"),
              Hosts(form.hosts.begin(), form.hosts.begin() + static_cast<std::ptrdiff_t>(most)));
}

INSTANTIATE_TEST_SUITE_P(Of, HostList, testing::ValuesIn(forms()),
                         [](const auto& row) { return std::string(row.param.name); });

class NoHostList : public testing::TestWithParam<const char*> {};

TEST_P(NoHostList, IsRefusedWithItsName) {
  for (const std::size_t most : {std::size_t{1}, kAll}) {
    try {
      const Hosts hosts = hosts_in(GetParam(), most, "SLURM_STEP_NODELIST");
      ADD_FAILURE() << GetParam() << " gave " << hosts.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(
          std::string(error.what())
              .starts_with("SLURM_STEP_NODELIST: '" + std::string(GetParam()).substr(0, 80)))
          << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, NoHostList,
                         testing::Values("", ", ,", "n[1-3", "n1]", "n[]", "n[1,]", "n[,1]",
                                         "n[3-1]", "n[a-c]", "n[1-2-3]", "n[-1]", "n[1-]", "n[+1]",
                                         "n[ 1-2]", "n[0x1]", "a[b[1-2]]", "n[1-2]]",
                                         "n[18446744073709551616]", "good[1-2],bad[1-"));

// Twenty brackets of a million numbers each would be more names than there are atoms.
TEST(HostLists, MakeNoMoreNamesThanAskedFor) {
  const penstock::test::TimeLimit limit(20);
  std::string list = "n";
  std::string first = "n";
  for (int i = 0; i < 20; ++i) {
    list += "[0-18446744073709551615]x";
    first += "0x";
  }
  EXPECT_EQ(hosts_in(list, 1, "LIST"), Hosts{first});
  EXPECT_EQ(hosts_in(list, 1000, "LIST").size(), 1000U);
  // All that fits into an environment variable.
  std::string many = "n[0";
  while (many.size() < 120'000) many += ",0-4294967295";
  EXPECT_EQ(hosts_in(many + "]", 3, "LIST"), (Hosts{"n0", "n0", "n1"}));
}

/// Returns the lines that `scontrol show hostnames` prints.
Hosts from_slurm(const std::string& list) {
  const std::string command = "scontrol show hostnames '" + list + "' 2>&1";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             ::pclose);
  Hosts hosts;
  std::string line;
  for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
    } else {
      hosts.push_back(std::exchange(line, {}));
    }
  }
  return hosts;
}

TEST(HostLists, AreThoseOfSlurm) {
  const penstock::test::TimeLimit limit(60);
  if (std::system("command -v scontrol >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "Debian's slurm-wlm is not installed";
  const penstock::test::TempFolder folder;
  const std::string configuration =
      folder.write("slurm.conf", "ClusterName=test\nSlurmctldHost=localhost\n");
  ::setenv("SLURM_CONF", configuration.c_str(), 1);
  if (from_slurm("a,b") != Hosts{"a", "b"}) GTEST_SKIP() << "scontrol does not work here";
  for (const Form& form : forms()) {
    if (!form.slurm_too) continue;
    EXPECT_EQ(from_slurm(form.list), form.hosts) << form.list;
  }
  for (const char* list :
       {"n[1-1200]", "r[1-9,11]c[01-12]n[0-3]", "a[1-2]b[1-2]c[1-2]d[1-2]e[1-3]",
        "n[099-101,7]q[2]", "nid[000012-000015,000100],login1,gpu[1,3-4]x[08-09]"})
    EXPECT_EQ(from_slurm(list), hosts_in(list, kAll, "LIST")) << list;
}

}  // namespace
}  // namespace penstock::cluster
