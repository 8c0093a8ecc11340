# Takes the C++ out of a page of the documentation, so that it is compiled and run as it stands there.
#
#   awk -v page=guide -v root=TREE -v out=FOLDER [-v list=1] -f extract.awk docs/guide.md
#
# A comment in front of a block says what it is; every other cpp block is the body of a function:
#   <!-- program: NAME -->          a whole program, made NAME.cpp
#   <!-- prints: NAME -->           what that program prints
#   <!-- file: PATH -->             a new file of the tree
#   <!-- after: PATH: LINE -->      goes behind the one line of the tree's file that begins with LINE;
#                                   also before: and replace:
#   <!-- vectors -->                expressions, each with a comment: what comes out [; skip: …]
# With `list` nothing is written, and what would be is printed: its kind, its path and what it is made of.

function fail(line, why) {
  print FILENAME ":" line ": " why > "/dev/stderr"
  failed = 1
  exit 1
}
BEGIN {
  # What a fragment may use without saying where it comes from.
  context = "([[maybe_unused]] const ps::Dataset& data, [[maybe_unused]] const ps::Dataset& images,\n" \
            "    [[maybe_unused]] ps::Iterator& iterator, [[maybe_unused]] ps::Next& next) {"
}
function trim(text) {
  sub(/^[ \t]+/, "", text)
  sub(/[ \t]+$/, "", text)
  return text
}
function made(kind, path, from) {
  if (!(path in known)) {
    known[path] = 1
    if (list) print kind, path, from
  }
}
function line_directive(at) { return "#line " at " \"docs/" page ".md\"\n" }

# Writes what was collected for one path.
function save(path, text) {
  if (list) return
  printf "%s", text > (out "/" path)
  close(out "/" path)
}

# The tree's file with the blocks at their anchors.
function patch(path, line, text, i, hits, front, back) {
  text = ""
  while ((getline line < (root "/" path)) > 0) {
    front = ""
    back = ""
    line = line "\n"
    for (i = 1; i <= inserts; ++i) {
      if (insert_path[i] != path || index(trim(line), insert_anchor[i]) != 1) continue
      ++hits[i]
      if (insert_how[i] == "before") front = front insert_text[i]
      else back = back insert_text[i]
      if (insert_how[i] == "replace") line = ""
    }
    text = text front line back
  }
  close(root "/" path)
  for (i = 1; i <= inserts; ++i) {
    if (insert_path[i] == path && hits[i] != 1) {
      fail(insert_line[i], hits[i] + 0 " lines of " path " begin with: " insert_anchor[i])
    }
  }
  save(path, text)
}

function end_block(n, parts) {
  if (mode == "program") {
    programs[argument] = block
    made("program", argument ".cpp", "")
  } else if (mode == "prints") {
    gsub(/\n/, "\n//     ", block)
    sub(/\/\/     $/, "", block)
    programs[argument] = programs[argument] "\n// Prints:\n//     " block
  } else if (mode == "file") {
    files[argument] = block
    made("file", argument, "")
  } else if (mode == "after" || mode == "before" || mode == "replace") {
    n = index(argument, ": ")
    insert_how[inserts + 1] = mode
    insert_path[++inserts] = substr(argument, 1, n - 1)
    insert_anchor[inserts] = substr(argument, n + 2)
    insert_text[inserts] = block
    insert_line[inserts] = comment_line
    made("file", insert_path[inserts], insert_path[inserts])
  } else if (mode == "fragment") {
    made("fragments", page "_fragments.cpp", "")
    fragments = fragments "\n[[maybe_unused]] void fragment_" ++fragment_count context "\n" \
                line_directive(block_line) block "}\n"
  }
}

# One line of a block of vectors: code, and behind // what comes out.
function add_vector(line, at, expected, skip) {
  at = index(line, " // ")
  code = code (code == "" ? "" : "\n") (at ? substr(line, 1, at - 1) : line)
  if (!at) return
  expected = trim(substr(line, at + 4))
  skip = ""
  at = index(expected, "; skip: ")
  if (at) {
    skip = substr(expected, at + 8)
    expected = substr(expected, 1, at - 1)
  }
  made("vectors", page "_vectors.cpp", "")
  vectors = vectors "\n  check(" FNR ",\n" line_directive(block_line) trim(code) ",\n\"" \
            expected "\", \"" skip "\");\n"
  code = ""
  block_line = FNR + 1
}

/^<!-- (program|prints|file|after|before|replace): .+ -->$/ {
  split($2, word, ":")
  next_mode = word[1]
  argument = $0
  sub(/^<!-- [a-z]+: /, "", argument)
  sub(/ -->$/, "", argument)
  comment_line = FNR
  next
}
/^<!-- vectors -->$/ { next_mode = "vectors"; next }
/^```/ && mode == "" {
  mode = next_mode != "" ? next_mode : ($0 == "```cpp" ? "fragment" : "other")
  next_mode = ""
  block = ""
  code = ""
  block_line = FNR + 1
  next
}
/^```$/ {
  if (mode == "vectors" && trim(code) != "") fail(block_line, "a vector without a result")
  end_block()
  mode = ""
  next
}
mode == "vectors" { if (trim($0) != "") add_vector($0); next }
mode != "" { block = block $0 "\n" }

END {
  if (failed) exit 1
  if (mode != "") fail(block_line - 1, "a block that is never closed")
  for (name in programs) save(name ".cpp", programs[name])
  for (path in files) save(path, files[path])
  if (!list) {
    for (i = 1; i <= inserts; ++i) {
      if (insert_path[i] in patched) continue
      patched[insert_path[i]] = 1
      patch(insert_path[i])
    }
  }
  if (fragments != "") {
    save(page "_fragments.cpp", "#include \"tests/docs/fragments.h\"\n\nnamespace {\n" fragments "\n}  // namespace\n")
  }
  if (vectors != "") {
    save(page "_vectors.cpp", "#include \"tests/docs/vectors.h\"\n\nnamespace penstock::test {\n\n" \
         "TEST(Docs, " page ") {\n" vectors "}\n\n}  // namespace penstock::test\n")
  }
}
