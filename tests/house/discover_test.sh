#!/usr/bin/env bash
# What ctest says of tests that fail, crash or are skipped, alone and among others with other parameters, and how they are
# counted: discover_test.sh COMPILER SOURCE_FOLDER
set -euo pipefail
compiler=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p tests/made
cat >tests/made/all_test.cpp <<'END'
#include <cstdlib>

#include <gtest/gtest.h>

TEST(One, Fails) { EXPECT_EQ(1, 2); }
TEST(One, Passes) {}
TEST(One, Skips) { GTEST_SKIP() << "alone"; }
class Two : public testing::TestWithParam<int> {};
TEST_P(Two, BothFail) { EXPECT_LT(GetParam(), 0); }
TEST_P(Two, BothSkip) { GTEST_SKIP() << "both"; }
TEST_P(Two, OneCrashes) {
  if (GetParam() == 1) std::abort();
}
TEST_P(Two, OneFailsOneSkips) {
  if (GetParam() == 0) GTEST_SKIP() << "beside a failure";
  FAIL();
}
TEST_P(Two, OneSkips) {
  if (GetParam() == 0) GTEST_SKIP() << "beside a pass";
}
INSTANTIATE_TEST_SUITE_P(Made, Two, testing::Values(0, 1));
END
"$compiler" -std=c++20 tests/made/all_test.cpp -o program -lgtest -lgtest_main -pthread
cat >CTestTestfile.cmake <<END
set(program $folder/program)
set(name "")
set(pattern "")
set(timeout 60)
set(indices $folder)
include($source/tests/discover.cmake)
END
ctest >log 2>&1 && { echo "ctest passes although tests fail"; exit 1; }
diff - <(awk '/ Test +#/ { sub(/^.*Test +#[0-9]+: /, ""); sub(/ *[0-9.]+ sec$/, ""); gsub(/ \.+ */, " "); gsub(/\.\.\.+/, " "); gsub(/ +/, " "); print }' log | sort) <<'END'
made/all/Made/Two.BothFail ***Failed
made/all/Made/Two.BothSkip Passed
made/all/Made/Two.OneCrashes Subprocess aborted***Exception:
made/all/Made/Two.OneFailsOneSkips ***Failed
made/all/Made/Two.OneSkips Passed
made/all/One.Fails ***Failed
made/all/One.Passes Passed
made/all/One.Skips ***Skipped
END
counts=$(awk -f "$source/tools/count_tests.awk" Testing/Temporary/LastTest.log)
[ "${counts%% (*}" = "3 5 5" ] || { echo "counted $counts"; exit 1; }
