// Batches for a program in C: a pipeline that TOML describes, its columns, and a run that resumes
// where another stopped. Any C99 compiler; link penstock_pipelines (docs/c.md).
//
//     c_batches [FILE.toml]
//
// Prints:
//     first:
//       value i64 [4] 5 6 8 2
//     the others:
//       value i64 [4] 1 4 9 3
//       value i64 [2] 0 7
//     the others, by a resumed run:
//       value i64 [4] 1 4 9 3
//       value i64 [2] 0 7
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/c.h>

static const char kNumbers[] =
    "[source]\n"
    "kind = \"range\"\n"
    "stop = 10\n"
    "[[stages]]\n"
    "kind = \"shuffle\"\n"
    "[[stages]]\n"
    "kind = \"batch\"\n"
    "size = 4\n"
    "[run]\n"
    "seed = 1\n";

// What failed is said by penstock_error, for this thread.
static void check(penstock_status status) {
  if (status == PENSTOCK_OK) return;
  fprintf(stderr, "c_batches: %s: %s\n", penstock_status_name(status), penstock_error());
  exit(1);
}

// Prints each column with its shape, and the values of those of i64.
static void show(const penstock_element* element) {
  for (size_t i = 0; i < penstock_element_columns(element); ++i) {
    penstock_column column;
    check(penstock_element_column(element, i, &column));
    printf("  %s %s [", column.name, penstock_dtype_name(column.dtype));
    for (int axis = 0; axis < column.rank; ++axis)
      printf("%s%" PRId64, axis == 0 ? "" : ",", column.shape[axis]);
    printf("]");
    if (column.dtype == PENSTOCK_I64 && column.rank == 1) {
      const int64_t* values = column.data;
      for (int64_t row = 0; row < column.shape[0]; ++row)
        printf(" %" PRId64, values[row * column.strides[0]]);
    }
    printf("\n");
  }
}

// Prints what is left of an epoch.
static void show_rest(penstock_run* run) {
  penstock_element* element = NULL;
  penstock_status status;
  while ((status = penstock_run_next(run, &element)) != PENSTOCK_END) {
    check(status);  // an error stands in the place of a batch
    show(element);
    penstock_element_close(element);  // its memory becomes that of a later batch
  }
}

int main(int argc, char** argv) {
  penstock_pipeline* pipeline = NULL;
  if (argc > 1)
    check(penstock_pipeline_read(argv[1], &pipeline));
  else
    check(penstock_pipeline_parse(kNumbers, strlen(kNumbers), "numbers", &pipeline));

  // One batch, and where the run is then.
  penstock_run* run = NULL;
  penstock_element* element = NULL;
  void* state = NULL;
  size_t state_size = 0;
  check(penstock_run_start(pipeline, NULL, 0, &run));
  check(penstock_run_next(run, &element));
  printf("first:\n");
  show(element);
  penstock_element_close(element);
  check(penstock_run_save(run, &state, &state_size));
  printf("the others:\n");
  show_rest(run);
  penstock_run_close(run);

  // Another run resumes from the state, in this process or a later one.
  check(penstock_run_start(pipeline, state, state_size, &run));
  penstock_free(state);
  penstock_pipeline_close(pipeline);  // runs keep what they need of it
  printf("the others, by a resumed run:\n");
  show_rest(run);
  penstock_run_close(run);
  return 0;
}
