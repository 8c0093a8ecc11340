/* Penstock for C, and for every language that can call C: a pipeline described in TOML, and its
   batches. This header belongs to the component `pipelines`. docs/c.md shows how to use it;
   examples/c_batches.c is a complete program.

   Status. Functions that can fail return a penstock_status; no exception leaves a function.
   penstock_error() returns the text of the error. A NULL handle gives PENSTOCK_INVALID_ARGUMENT.
   Output arguments are NULL or 0 unless the status is PENSTOCK_OK.

   Threads. A pipeline never changes, so any number of threads may use one at the same time. For a
   run, any thread may call next, epoch, save, report and cancel at any time, and each element goes
   to one caller. Call next_epoch only while no other thread is in next. Several threads may read an
   element. Close each handle once, when no thread uses it any more. Pipelines, runs and elements do
   not depend on each other's lifetime: close them in any order. A child process made by fork cannot
   use the runs of its parent, and cannot start a run if its parent has started one.

   Stability. The names, numbers and structs of this file keep their meaning within a minor version
   (docs/c.md). */
#ifndef PENSTOCK_C_H
#define PENSTOCK_C_H

#include <stddef.h>
#include <stdint.h>

/* Gives enums a fixed type in C++, so that they can hold every number there, as in C. */
#ifdef __cplusplus
#define PENSTOCK_INT32 : int32_t
extern "C" {
#else
#define PENSTOCK_INT32
#endif

/** The result of a call. */
typedef enum penstock_status PENSTOCK_INT32 {
  PENSTOCK_OK = 0,                 /**< success */
  PENSTOCK_END = 1,                /**< the epoch has no more elements, or the run no more epochs */
  PENSTOCK_INVALID_ARGUMENT = 2,   /**< a NULL handle; not a pipeline; the state of another */
  PENSTOCK_NOT_FOUND = 3,          /**< a file or column that does not exist */
  PENSTOCK_DATA_LOSS = 4,          /**< bytes that do not decode, or fail their checksum */
  PENSTOCK_OUT_OF_RANGE = 5,       /**< an index or a size beyond a limit */
  PENSTOCK_RESOURCE_EXHAUSTED = 6, /**< memory, file descriptors, disk */
  PENSTOCK_UNAVAILABLE = 7,        /**< input or output failed; worth another try */
  PENSTOCK_CANCELLED = 8,          /**< penstock_run_cancel was called */
  PENSTOCK_USER = 9,               /**< an exception left a callable */
  PENSTOCK_INTERNAL = 10,          /**< a defect of Penstock */
  PENSTOCK_DEVICE_LOST = 11,       /**< a device failed for good */
  PENSTOCK_NO_PROGRESS = 12,       /**< something that should have ended did not */
  PENSTOCK_MISMATCH = 13,          /**< an element that does not fit its stage */
  PENSTOCK_CHANGED = 14            /**< data that changed while a run read it: the run has ended */
} penstock_status;

/** Returns "ok", "end", "invalid_argument"...; never NULL. The library owns the text. */
const char* penstock_status_name(penstock_status status);
/** Returns the error text of the last call that failed on this thread: at most 4,095 bytes of
   UTF-8, or "" if none has failed. The text is valid until another call fails on this thread, or
   until the thread ends. Never NULL. */
const char* penstock_error(void);
/** Returns the version, for example "0.1.0". The library owns the text. */
const char* penstock_version(void);
/** Frees memory that this library allocated for its caller: states and reports. Ignores NULL. */
void penstock_free(void* memory);

/* ---- Pipelines ---- */

/** The handle of a pipeline. */
typedef struct penstock_pipeline penstock_pipeline;

/** Reads a pipeline from `size` bytes of TOML (docs/pipeline-toml.md). The bytes may be freed
   afterwards. Errors show `name` in place of a file name; NULL means "pipeline". The settings of
   [run] for the JPEG decoder, SIMD and servers apply to the whole process from then on; `batches`
   and `step_ms` have no effect. Stages with `on_device` give PENSTOCK_INVALID_ARGUMENT. */
penstock_status penstock_pipeline_parse(const char* toml, size_t size, const char* name,
                                        penstock_pipeline** pipeline);
/** Reads a pipeline from a file. Paths in the file are relative to the folder that the process runs
   in. */
penstock_status penstock_pipeline_read(const char* path, penstock_pipeline** pipeline);
/** Closes the pipeline. Ignores NULL. */
void penstock_pipeline_close(penstock_pipeline* pipeline);

/* ---- Runs ---- */

/** The handle of a run. */
typedef struct penstock_run penstock_run;
/** The handle of an element, or of a batch. */
typedef struct penstock_element penstock_element;

/** Starts a run, which makes elements ahead on threads of its own. `state` is a state of this
   pipeline from penstock_run_save, or NULL to start at the beginning. It may be freed afterwards. A
   damaged state gives PENSTOCK_DATA_LOSS. */
penstock_status penstock_run_start(const penstock_pipeline* pipeline, const void* state,
                                   size_t state_size, penstock_run** run);
/** Waits for the next element of the epoch. Returns PENSTOCK_END when no more elements remain, as
   often as it is called. After an error of one element, the next call returns the element after it.
   After too many errors, or after penstock_run_cancel, the run returns that error once and then
   ends. */
penstock_status penstock_run_next(penstock_run* run, penstock_element** element);
/** Moves to the next epoch and drops the rest of this one. Returns PENSTOCK_END if there is no next
   epoch. */
penstock_status penstock_run_next_epoch(penstock_run* run);
/** Returns the number of the epoch, counted from 0; 0 for NULL. */
uint64_t penstock_run_epoch(const penstock_run* run);
/** Saves the position of the run: after every element that penstock_run_next has returned. The
   caller frees the state with penstock_free. */
penstock_status penstock_run_save(const penstock_run* run, void** state, size_t* state_size);
/** Reports the run so far and its bottleneck as a JSON object (docs/profile.md, "The JSON") that
   ends with a zero byte. The caller frees the text with penstock_free. This is the only call that
   may end the process when memory runs out, because the JSON library allocates in destructors. */
penstock_status penstock_run_report(const penstock_run* run, char** json);
/** Wakes all threads that wait for the run, and ends it. Ignores NULL. */
void penstock_run_cancel(penstock_run* run);
/** Cancels the run and waits for its threads. Ignores NULL. */
void penstock_run_close(penstock_run* run);

/* ---- Feeds ---- */

/** A feed gives the batches of a pipeline to several towers on host devices. Each tower has a
   thread that asks for its batches (docs/staging.md). Devices with their own memory need C++. */
typedef struct penstock_feed penstock_feed;

/** The most towers of a feed. */
enum { PENSTOCK_MAX_TOWERS = 1024 };

/** How towers share the pipeline. */
typedef enum penstock_feed_mode PENSTOCK_INT32 {
  PENSTOCK_FEED_SPLIT = 0,     /**< each batch is divided, tower by tower */
  PENSTOCK_FEED_PER_TOWER = 1, /**< batch k goes to tower k modulo the number of towers */
  PENSTOCK_FEED_SHARDED = 2    /**< tower t gets batches of its own shard */
} penstock_feed_mode;

/** The treatment of elements that remain at the end of an epoch and fill no step of all towers. */
typedef enum penstock_epoch_end PENSTOCK_INT32 {
  PENSTOCK_EPOCH_DROP = 0, /**< they are dropped */
  PENSTOCK_EPOCH_PAD = 1,  /**< one more step of full batches, with rows of zeros */
  PENSTOCK_EPOCH_WRAP = 2, /**< one more step, completed from the next epoch's start */
  PENSTOCK_EPOCH_STOP = 3  /**< one more step of short batches, if every tower gets an element */
} penstock_epoch_end;

/** Starts a feed for `towers` towers. `state` is as for penstock_run_start, but comes from
   penstock_feed_save. Returns PENSTOCK_INVALID_ARGUMENT for arguments that have no meaning for the
   pipeline's batches; the error text gives the reason. */
penstock_status penstock_feed_start(const penstock_pipeline* pipeline, int32_t towers,
                                    penstock_feed_mode mode, penstock_epoch_end end,
                                    const void* state, size_t state_size, penstock_feed** feed);
/** Waits for the tower's next batch. Returns PENSTOCK_END once at the end of each epoch, and on
   every call after the last epoch. A failure is returned to each tower once, at the same step. A
   tower may hold one batch while it asks for the next. A tower that holds more waits for itself,
   which becomes an error after a while. Only one thread at a time may call this for a tower. */
penstock_status penstock_feed_next(penstock_feed* feed, int32_t tower, penstock_element** batch);
/** Returns 1 once the tower gets no more batches, for NULL and for an unknown tower; else 0. */
int32_t penstock_feed_ended(const penstock_feed* feed, int32_t tower);
/** Works as penstock_run_save. Thread-safe. */
penstock_status penstock_feed_save(const penstock_feed* feed, void** state, size_t* state_size);
/** Works as penstock_run_report. Thread-safe. */
penstock_status penstock_feed_report(const penstock_feed* feed, char** json);
/** Works as penstock_run_cancel. Thread-safe. */
void penstock_feed_cancel(penstock_feed* feed);
/** Works as penstock_run_close. */
void penstock_feed_close(penstock_feed* feed);

/* ---- Elements ---- */

/** The most dimensions of a column. */
enum { PENSTOCK_MAX_RANK = 6 };

/** The type of a column's values. */
typedef enum penstock_dtype PENSTOCK_INT32 {
  PENSTOCK_U8 = 0,
  PENSTOCK_I8 = 1,
  PENSTOCK_U16 = 2,
  PENSTOCK_I16 = 3,
  PENSTOCK_U32 = 4,
  PENSTOCK_I32 = 5,
  PENSTOCK_U64 = 6,
  PENSTOCK_I64 = 7,
  PENSTOCK_F16 = 8,  /**< IEEE binary16 */
  PENSTOCK_BF16 = 9, /**< the upper half of an IEEE binary32 */
  PENSTOCK_F32 = 10,
  PENSTOCK_F64 = 11,
  PENSTOCK_BOOL = 12, /**< one byte, 0 or 1 */
  PENSTOCK_BYTES = 13 /**< byte strings of any length */
} penstock_dtype;

/** Returns "u8", "f32", "bytes"...; never NULL. The library owns the text. */
const char* penstock_dtype_name(penstock_dtype dtype);

/** A named array, which points into its element. In a batch, the outermost dimension counts the
   rows. */
typedef struct penstock_column {
  const char* name;                   /**< ends with a zero byte */
  penstock_dtype dtype;               /**< of the values */
  int32_t rank;                       /**< 0 for a single value */
  int64_t shape[PENSTOCK_MAX_RANK];   /**< outermost first; 0 beyond the rank */
  int64_t strides[PENSTOCK_MAX_RANK]; /**< from one item to the next, in values; row-major, except
                                         for example in windows */
  const void* data;                   /**< the first value, in host memory; NULL for byte strings */
} penstock_column;

/** Returns the number of columns; 0 for NULL. */
size_t penstock_element_columns(const penstock_element* element);
/** Returns the number of rows in a batch that hold samples; all other rows are padding. Returns -1
   for NULL and for an element that is not a batch. */
int64_t penstock_element_rows(const penstock_element* element);
/** Gives the column of this index. Returns PENSTOCK_OUT_OF_RANGE if there is none. */
penstock_status penstock_element_column(const penstock_element* element, size_t index,
                                        penstock_column* column);
/** Gives the index of the column with this name. Returns PENSTOCK_NOT_FOUND if there is none. */
penstock_status penstock_element_find(const penstock_element* element, const char* name,
                                      size_t* index);
/** Gives one byte string of a column of dtype PENSTOCK_BYTES, by its row-major position. The string
   may contain zero bytes, has no zero at its end, and lies in the element. Returns
   PENSTOCK_OUT_OF_RANGE for a position after the last string, and PENSTOCK_INVALID_ARGUMENT for
   another dtype. */
penstock_status penstock_element_bytes(const penstock_element* element, size_t index,
                                       int64_t position, const void** data, size_t* size);

/* The struct of DLPack's header (https://dmlc.github.io/dlpack). Include that header to use its
   members. */
struct DLManagedTensor;

/** Gives a column to another library without a copy; only columns of at most 48 bytes outside of a
   batch are copied. The tensor shares the element's memory and stays valid after the element is
   closed. Do not write to this memory while other code reads it. The caller calls the tensor's
   deleter once, on any thread. Returns PENSTOCK_INVALID_ARGUMENT for byte strings, which DLPack
   does not have. */
penstock_status penstock_element_dlpack(const penstock_element* element, size_t index,
                                        struct DLManagedTensor** tensor);
/* The structs of https://arrow.apache.org/docs/format/CDataInterface.html. */
struct ArrowSchema;
struct ArrowArray;

/** Gives the rows of a batch that hold samples as an Arrow record batch: a struct of columns.
   Columns with more dimensions are lists of a fixed size. The caller owns both structs and calls
   their release functions. They share the element's memory and stay valid after it is closed. Byte
   strings (large_binary), booleans and columns that are not row-major are copied. Returns
   PENSTOCK_INVALID_ARGUMENT for an element that is not a batch, for a ragged batch, and for bf16,
   which Arrow does not have. */
penstock_status penstock_element_arrow(const penstock_element* element, struct ArrowSchema* schema,
                                       struct ArrowArray* array);
/** Returns the element's memory to the run. A run can make only a limited number of further
   elements until their memory comes back. Ignores NULL. */
void penstock_element_close(penstock_element* element);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
