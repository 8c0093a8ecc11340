#!/bin/bash
# Reads docs and header comments as text: at most 5 % of the sentences of a file may have more than
# 30 words, none may have a phrase of the list below, and no line of a page is wider than 100
# columns, tables aside, which Markdown can't wrap. Of tests it reads the names, which are noun
# phrases and no clauses.
#
#     tools/check_prose.sh [--list] [FILE...]
#
# Without files: all pages but results and changes, the headers that are installed, and the tests. README.md and docs/ may
# then have 40,000 words; docs/adr does not count.
# --list shows the long sentences too.
set -euo pipefail
cd "$(dirname "$0")/.."
list=0
if [ "${1:-}" = --list ]; then list=1 && shift; fi
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files '*.md' '*.h' 'tests/*.cpp' ':!bench/results' ':!CHANGELOG.md')
  words=$(cat README.md docs/*.md | wc -w)
  [ "$words" -le 40000 ] || { echo "README.md and docs/ have $words words, more than 40,000"; exit 1; }
else
  files=("$@")
fi
# shellcheck disable=SC2016
exec env LIST=$list perl -CSD -e '
  my @banned = (qr/\bthat which\b/i, qr/\bthere is not\b/i, qr/\b(go|goes|going|went|gone) on\b/i,
    qr/\bat work\b/i, qr/\bthat there (is|are)\b/i, qr/\b(be|is|are|was|were) had\b/i,
    qr/\bwho (decodes|reads|writes|calls|asks|has|is)\b/, qr/\b(of|and) (its|their) like\b/i,
    qr/\bwhat is no\b/i, qr/\bso long for\b/i, qr/^(What|Who|Whoever|Whose) (?!.*\?)/);
  my $bad = 0;
  for my $file (@ARGV) {
    open(my $in, "<", $file) or die "$file: $!\n";
    if ($file =~ /\.(cpp|h)$/) {
      my $source = do { local $/; <$in> };
      while ($source =~ /\bTEST(?:_[FP])?\(\s*(\w+),\s*((?:What|Who|Whose|Where|When|While|How|That|If)[A-Z]\w*)/g) {
        print "$file: $1.$2 is a clause; name the test with a noun phrase\n"; $bad++;
      }
      next if $file =~ /\.cpp$/;
      seek($in, 0, 0);
    }
    my ($code, @texts, $text, $wide) = (0, (), "");
    my $flush = sub { push @texts, $text if $text =~ /\w/; $text = ""; };
    while (my $line = <$in>) {
      chomp $line;
      if ($file =~ /\.h$/) {
        if ($line =~ m{^\s*//[/!]?<?\s?(.*)}) {
          my $part = $1;
          $flush->() if $part =~ /^(\s{3,}|\s*$|@|- )/;
          $text .= " $part" unless $part =~ /^\s{3,}|^@/;
        } else { $flush->(); push @texts, $1 if $line =~ m{\S.*///?<?\s(.*)}; }
        next;
      }
      $code = !$code if $line =~ /^\s*```/;
      next if $code || $line =~ /^\s*```/;
      if ($line =~ /^\s*\|/) { $flush->(); push @texts, split /\s\|\s/, $line =~ s/^\s*\||\|\s*$//gr; next; }
      if (length $line > 100 && $line !~ m{^\s*\S+$|^\[}) { print "$file:$.: wider than 100 columns\n"; $bad++; }
      $flush->() if $line =~ /^\s*$|^\s*([-*#>]|\d+\.)\s/;
      $text .= " " . ($line =~ s/^\s*([-*#>]+|\d+\.)\s//r);
    }
    $flush->();
    my ($all, $long) = (0, 0);
    for (@texts) {
      s/`[^`]*`/x/g; s/\]\([^)]*\)/]/g; s/\s+/ /g; s/^ //;
      for my $sentence (split /(?<=[.!?:])\s+(?=[A-Z"(\[x])/) {
        my $words = () = $sentence =~ /\S+/g;
        $all++ if $words > 2;
        if ($words > 30) { $long++; print "$file: $words words: $sentence\n" if $ENV{LIST}; }
        for my $phrase (@banned) {
          if ($sentence =~ $phrase) { print "$file: \"$&\" in: $sentence\n"; $bad++; }
        }
      }
    }
    if ($long > 0.05 * $all) { print "$file: $long of $all sentences have more than 30 words\n"; $bad++; }
  }
  exit($bad > 0);
' -- "${files[@]}"
