// Tintype: on-device inference. The C interface of libtintype.
//
// Made by cbindgen from crates/capi/src; do not edit.
//
// Handles are numbers that are never issued twice: zero, freed ones, and those of another copy of the
// library are refused by every function with a status. Everything long is a request: it runs on a thread
// of the library, is polled or waited for, cancelled and freed. Text is UTF-8 with a length. Structures
// begin with their size, so that programs and libraries of different age understand each other.
//
// The process may end at any moment, models and requests alive and at work: on Linux and Apple systems
// the library cancels, waits and frees during exit(). On Windows and Android call tintype_exit_teardown()
// before the process ends.

#ifndef TINTYPE_H
#define TINTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>
// The version of this header. tintype_abi_version() of the library must be the same.
#define TINTYPE_ABI_VERSION 1

// How a call ended, or where a request stands.
enum tintype_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  TINTYPE_STATUS_OK = 0,
  // The request is at work.
  TINTYPE_STATUS_RUNNING = 1,
  // There is nothing more to read.
  TINTYPE_STATUS_NOTHING = 2,
  // The time ran out; the request goes on.
  TINTYPE_STATUS_TIMEOUT = 3,
  // The work was asked to stop, and did.
  TINTYPE_STATUS_CANCELLED = 4,
  // A pointer or handle is null.
  TINTYPE_STATUS_NULL = -1,
  // The handle was freed before.
  TINTYPE_STATUS_FREED = -2,
  // The handle was issued by another copy of the library, or by nobody.
  TINTYPE_STATUS_FOREIGN = -3,
  // The handle names an object of another kind.
  TINTYPE_STATUS_WRONG_TYPE = -4,
  // An argument is out of its range, not UTF-8, or names nothing that is there.
  TINTYPE_STATUS_INVALID_ARGUMENT = -5,
  // The buffer is too short; the length that is needed was written.
  TINTYPE_STATUS_BUFFER_TOO_SMALL = -6,
  // The request has no such result.
  TINTYPE_STATUS_NO_RESULT = -7,
  // The process is ending, and nothing was done.
  TINTYPE_STATUS_CLOSED = -8,
  // The file or folder cannot be read or written.
  TINTYPE_STATUS_IO = -9,
  // The file is damaged, or its parts do not fit one another.
  TINTYPE_STATUS_BAD_MODEL = -10,
  // The file holds no model of a kind that is supported.
  TINTYPE_STATUS_UNSUPPORTED = -11,
  // A device refused or failed, or there is none.
  TINTYPE_STATUS_DEVICE = -12,
  // The device has too little memory.
  TINTYPE_STATUS_OUT_OF_MEMORY = -13,
  // The device or the weights gave numbers that no sound model gives.
  TINTYPE_STATUS_BROKEN = -14,
  // No object is tracked at this address.
  TINTYPE_STATUS_NOT_TRACKED = -15,
  // The thread ends a call that it has not begun.
  TINTYPE_STATUS_NO_CALL = -16,
  // A fault of the library; please report it.
  TINTYPE_STATUS_INTERNAL = -17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tintype_status tintype_status;
#else
typedef int32_t tintype_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Names a model or a request. Zero names nothing.
typedef uint64_t tintype_handle;

// A device that models can run on.
typedef struct {
  // sizeof(tintype_device_info): set it in the first structure of the array.
  size_t struct_size;
  // Bytes of memory.
  uint64_t memory_total;
  // Bytes of memory that are free now.
  uint64_t memory_free;
  // Whether it is the one that is used unless another is asked for: 1 or 0.
  uint32_t is_default;
  // 0 discrete GPU, 1 integrated GPU, 2 virtual GPU, 3 the processor, 4 a graphics driver that runs on
  // the processor.
  uint32_t kind;
  // What names it in tintype_load_options, as "vulkan:0", ended by a zero byte.
  char selector[64];
  // Its name, ended by a zero byte, cut if it is longer.
  char name[256];
} tintype_device_info;

// How a teardown ended.
typedef struct {
  // sizeof(tintype_teardown): set it before the call.
  size_t struct_size;
  // Objects that were freed.
  uint64_t freed;
  // Objects that were left alive, because the bound ran out.
  uint64_t left;
  // Threads that were still in a call then.
  uint64_t in_flight;
} tintype_teardown;

// UTF-8 text and its length in bytes; a zero byte at the end is not needed. `{NULL, 0}` is no text.
typedef struct {
  // The first byte, or null.
  const char *data;
  // Bytes.
  size_t length;
} tintype_text;

// A request for pictures. What is zero is as the model prefers it.
typedef struct {
  // sizeof(tintype_image_request).
  size_t struct_size;
  // What the pictures shall show.
  tintype_text prompt;
  // What they shall not be like.
  tintype_text negative;
  // Where noise begins; picture n of a request is what seed + n alone gives.
  uint64_t seed;
  // Steps from noise to picture; 0 for the model's own.
  uint32_t steps;
  // Pictures to make; 0 for one.
  uint32_t batch;
  // Pixels in a row; 0 for the model's own.
  uint32_t width;
  // Rows; 0 for the model's own.
  uint32_t height;
  // Guidance scale, from 1 (off); 0 for the model's own.
  float guidance;
  // How much of the first picture is drawn anew: above 0, at most 1. Without a first picture 0.
  float strength;
  // Sampler by name, as "ddim" or "euler_a"; no text for the default.
  tintype_text sampler;
  // Scheduler by name, as "trailing" or "karras"; no text for the default.
  tintype_text scheduler;
  // Random source by name, as "cuda" or "cpu"; no text for the default.
  tintype_text random_source;
  // A picture to begin from, RGB, 8 bits, three bytes a pixel, rows from the top, without padding; null
  // for none.
  const uint8_t *init_pixels;
  // Pixels in a row of the first picture.
  uint32_t init_width;
  // Its rows.
  uint32_t init_height;
  // Which parts of the first picture are drawn anew, in the same form: white is, black is kept; null
  // for all.
  const uint8_t *mask_pixels;
  // Pixels in a row of the mask.
  uint32_t mask_width;
  // Its rows.
  uint32_t mask_height;
} tintype_image_request;

// One picture of a request that has ended.
typedef struct {
  // sizeof(tintype_image_info): set it before the call.
  size_t struct_size;
  // The seed that gives this picture alone.
  uint64_t seed;
  // Pixels in a row.
  uint32_t width;
  // Rows.
  uint32_t height;
  // Bytes a pixel: 3, red, green, blue.
  uint32_t channels;
  // Pictures of the request.
  uint32_t pictures;
} tintype_image_info;

// What to load, and where it runs. All zeros but the size: the built-in model on the best device.
typedef struct {
  // sizeof(tintype_load_options).
  size_t struct_size;
  // The model's file or folder; no text for the model that ships inside.
  tintype_text path;
  // Names the device: "cpu", "vulkan", "vulkan:1", "metal" or part of its name; no text for what the
  // variable TINTYPE_DEVICE says, or else the best there is.
  tintype_text device;
  // Threads on the CPU; 0 for all cores.
  uint32_t threads;
  // Zero.
  uint32_t reserved;
} tintype_load_options;

// What a model is and prefers.
typedef struct {
  // sizeof(tintype_model_info): set it before the call.
  size_t struct_size;
  // Numbers in its weights.
  uint64_t parameters;
  // Nanoseconds that loading took.
  uint64_t load_ns;
  // Pixels in a row of its pictures.
  uint32_t width;
  // Rows of its pictures.
  uint32_t height;
  // Most steps of a generation.
  uint32_t timesteps;
  // Steps that it prefers.
  uint32_t default_steps;
  // Guidance scale that it prefers.
  float default_guidance;
  // Zero.
  uint32_t reserved;
  // Its name, ended by a zero byte.
  char name[96];
  // The name of its device, ended by a zero byte, cut if it is longer.
  char device[256];
} tintype_model_info;

// One report of progress.
typedef struct {
  // Its number, from 1. A jump means that the reports between were overwritten before they were read.
  uint64_t sequence;
  // Nanoseconds since the phase began.
  uint64_t elapsed_ns;
  // A tintype_phase.
  uint32_t phase;
  // Units of the phase that are done: steps when denoising, else parts.
  uint32_t done;
  // Units in all.
  uint32_t total;
  // Which picture of the request, from 0.
  uint32_t picture;
  // Pictures of the request.
  uint32_t pictures;
  // Zero.
  uint32_t reserved;
} tintype_progress;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface: that of the header which a program was compiled with must be the same.
uint32_t tintype_abi_version(void);

// The library's version, as "0.1.0": text that lives as long as the process and ends with a zero byte.
const char *tintype_version(void);

// What a status is called, as "cancelled": text that lives as long as the process and ends with a zero
// byte.
const char *tintype_status_name(int32_t status);

// Why the calling thread's latest failed call failed, in words for a person. Empty if none has. A call
// that succeeds does not change it.
//
// `length` receives the text's bytes; the text and a zero byte go to `buffer` if it has room for them.
// Without room the status is TINTYPE_STATUS_BUFFER_TOO_SMALL and nothing is written to `buffer`.
//
// # Safety
// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
tintype_status tintype_last_error(char *buffer,
                                  size_t capacity,
                                  size_t *length);

// Frees a model or a request, and stops its work first; a request's model, if it was not taken, goes
// with it. Never waits for work. Returns TINTYPE_STATUS_FREED the second time.
tintype_status tintype_free(tintype_handle handle);

// As tintype_free, in the form that finalizers of managed languages call: the handle is in the pointer's
// bits. Any number of times, on any thread. 64-bit systems only.
void tintype_finalize(void *handle);

// Asks the work of a request to stop, or what a model is doing now or is asked next. Kept if it comes
// before the work begins. Never blocks.
tintype_status tintype_cancel(tintype_handle handle);

// Lists the devices, the best one first: `count` receives how many there are, and the first `capacity` of
// them are written to `devices`. Asks drivers, which may take a moment the first time.
//
// # Safety
// `devices` is null or an array of `capacity` structures, the first of which has its size set; `count` is
// null or may be written.
tintype_status tintype_devices(tintype_device_info *devices,
                               size_t capacity,
                               size_t *count);

// Tracks an object of the host, to be freed by `free_object` when the process exits: in stage 0 before
// models, in stage 1 with them, in stage 2 after them; latest first within a stage. Tracking an address
// again replaces its entry.
//
// # Safety
// `free_object(object)` may be called once, from any thread, until the object is untracked, and does not
// unwind.
tintype_status tintype_exit_track(void *object,
                                  void (*free_object)(void *object),
                                  uint32_t stage);

// Forgets an object of the host. True means that it was tracked, and that the caller frees it now; false
// means that it is being freed or was never tracked.
bool tintype_exit_untrack(void *object);

// Untracks an object of the host and calls its free function, in one call in flight. The second time it
// does nothing. Safe as a finalizer.
tintype_status tintype_exit_free(void *object);

// Marks the calling thread as in a call until tintype_exit_call_end: teardown waits for it, for the long
// bound if `creates` is true (it creates objects or works on them), else for the short one. Calls nest.
tintype_status tintype_exit_call_begin(bool creates);

// Ends the calling thread's latest marked call. If the process is ending and this was its outermost one,
// it does not return.
tintype_status tintype_exit_call_end(void);

// Sets how long teardown waits, in milliseconds, before it gives up and frees nothing: `long_ms` while a
// load, generation or device query is in flight (15 000 at first), `short_ms` otherwise (2 000). Negative
// means zero.
tintype_status tintype_exit_set_waits(int64_t long_ms,
                                      int64_t short_ms);

// To be called after the host has loaded a GPU driver of its own that the library did not load: what the
// driver registered to run at exit must run after teardown.
tintype_status tintype_exit_after_driver_load(void);

// Cancels everything, waits for the calls in flight and frees what is tracked, once and for good.
// Automatic during exit() on Linux and Apple systems; elsewhere the host calls it before the process ends.
// Afterwards calls of this thread do nothing (TINTYPE_STATUS_CLOSED), and those of every other thread do
// not return. TINTYPE_STATUS_TIMEOUT if the bound ran out: then nothing was freed.
//
// # Safety
// `ended` is null or begins with its size, has so many bytes and may be written.
tintype_status tintype_exit_teardown(tintype_teardown *ended);

// How many objects are tracked: models, requests, and what the host tracked.
size_t tintype_exit_tracked_count(void);

// Begins to make pictures, as a request. What the model cannot do is refused here; the structure and
// all it points to can go once this returns.
//
// # Safety
// `options` is null or begins with its size and has so many bytes; its texts have the bytes they say, its
// pictures three bytes for each pixel they say; `request` is null or may be written.
tintype_status tintype_image_generate(tintype_handle model,
                                      const tintype_image_request *options,
                                      tintype_handle *request);

// Describes picture `index` of a request. TINTYPE_STATUS_RUNNING while it is at work.
//
// # Safety
// `info` is null or begins with its size, has so many bytes and may be written.
tintype_status tintype_request_image_info(tintype_handle request,
                                          uint32_t index,
                                          tintype_image_info *info);

// Copies the pixels of picture `index`: RGB, 8 bits, rows from the top, without padding. `length` receives
// how many bytes they are; with a null buffer of no capacity that is all.
//
// # Safety
// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
tintype_status tintype_request_image_pixels(tintype_handle request,
                                            uint32_t index,
                                            uint8_t *buffer,
                                            size_t capacity,
                                            size_t *length);

// Copies picture `index` as the bytes of a PNG file, with what it was made with as text in it.
//
// # Safety
// As tintype_request_image_pixels.
tintype_status tintype_request_image_png(tintype_handle request,
                                         uint32_t index,
                                         uint8_t *buffer,
                                         size_t capacity,
                                         size_t *length);

// Writes picture `index` to a PNG file, which appears under its name only when it is whole.
//
// # Safety
// `path` has the bytes that it says.
tintype_status tintype_request_image_save(tintype_handle request,
                                          uint32_t index,
                                          tintype_text path);

// Begins to load an image model, as a request; tintype_request_take_model gives the model once it has
// ended. A file that cannot be read fails the request, not this call.
//
// # Safety
// `options` is null or begins with its size and has so many bytes, and its texts have the bytes they say;
// `request` is null or may be written.
tintype_status tintype_image_model_load(const tintype_load_options *options,
                                        tintype_handle *request);

// Says what a model is and prefers.
//
// # Safety
// `info` is null or begins with its size, has so many bytes and may be written.
tintype_status tintype_image_model_info(tintype_handle model, tintype_model_info *info);

// Where a request stands: TINTYPE_STATUS_RUNNING, TINTYPE_STATUS_OK, or why it failed.
tintype_status tintype_request_status(tintype_handle request);

// Waits until a request has ended, at most `timeout_ms` milliseconds, or without bound if that is
// negative. Returns as tintype_request_status, or TINTYPE_STATUS_TIMEOUT.
tintype_status tintype_request_wait(tintype_handle request, int64_t timeout_ms);

// Reads reports of progress. `cursor` begins at 0 and is moved behind what was read; `count` receives how
// many of `capacity` reports were written. The worker never waits for readers: it keeps its latest 64
// reports, and a jump in their numbers shows what was missed.
//
// # Safety
// `cursor` and `count` are null or may be written; `reports` is null or an array of `capacity`.
tintype_status tintype_request_progress(tintype_handle request,
                                        uint64_t *cursor,
                                        tintype_progress *reports,
                                        size_t capacity,
                                        size_t *count);

// Reads the next line of a request's log. `cursor` begins at 0 and is set to the number of the line that
// was read, if its text was; a jump means that lines between were dropped. TINTYPE_STATUS_NOTHING if
// there is none yet. The latest 256 lines are kept.
//
// # Safety
// `cursor` and `length` are null or may be written; `buffer` is null or has `capacity` bytes.
tintype_status tintype_request_log(tintype_handle request,
                                   uint64_t *cursor,
                                   char *buffer,
                                   size_t capacity,
                                   size_t *length);

// Why a request failed, in words for a person; empty if it has not.
//
// # Safety
// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
tintype_status tintype_request_error(tintype_handle request,
                                     char *buffer,
                                     size_t capacity,
                                     size_t *length);

// Takes the model out of a load that has ended: from here on the caller frees it, and the request can be
// freed. TINTYPE_STATUS_RUNNING while the load is at work, TINTYPE_STATUS_NO_RESULT the second time.
//
// # Safety
// `model` is null or may be written.
tintype_status tintype_request_take_model(tintype_handle request,
                                          tintype_handle *model);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TINTYPE_H */

#ifndef TINTYPE_TEXT_OF
#define TINTYPE_TEXT_OF
// Text that ends with a zero byte, as the library takes text.
static inline tintype_text tintype_text_of(const char *zero_terminated) {
  tintype_text text;
  text.data = zero_terminated;
  text.length = zero_terminated ? strlen(zero_terminated) : 0;
  return text;
}
#endif
