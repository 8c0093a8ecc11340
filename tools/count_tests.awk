# How many tests ctest ran, of its LastTest.log: "PASSED FAILED SKIPPED REASONS". REASONS is empty, or " (1 REASON; 2 REASON)".
# One test of ctest may be several of GoogleTest.
/^[0-9]+\/[0-9]+ Testing: / { good = bad = left = 0; skipped = after_skip = 0; reason = "" }
after_skip { ++reasons[$0]; after_skip = 0 }
/: Skipped$/ { after_skip = 1 }
/^\[       OK \] .* \([0-9]+ ms\)$/ { ++good }
/^\[  FAILED  \] .* \([0-9]+ ms\)$/ { ++bad }
/^\[  SKIPPED \] .* \([0-9]+ ms\)$/ { ++left }
/^Skip regular expression found/ { skipped = 1 }
/^Test (Passed|Pass Reason:|Failed|Fail Reason:)/ { verdict = $2 }
/ time elapsed: / {
  if (good + bad + left == 0) {  # no test of GoogleTest, or a crash
    if (skipped) { left = 1; ++reasons["no reason given"] }
    else if (verdict ~ /^Pass/) good = 1
  }
  if (verdict !~ /^Pass/ && !skipped && bad == 0) bad = 1
  passed += good; failed += bad; skips += left
}
END {
  for (reason in reasons) why = why (why == "" ? " (" : "; ") reasons[reason] " " reason
  printf "%d %d %d%s\n", passed, failed, skips, why == "" ? "" : why ")"
}
