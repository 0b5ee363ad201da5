// What every function answers to right and to wrong arguments. Compiled as C and as C++.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tintype.h>

static const char *at_line = "";

#define STRINGIFY(x) #x
#define LINE(x) STRINGIFY(x)
#define IS(call, expected)                                                                     \
  do {                                                                                         \
    at_line = LINE(__LINE__);                                                                  \
    tintype_status is_ = (call);                                                               \
    if (is_ != (expected)) fail(#call, (int)is_, #expected);                                   \
  } while (0)
#define CHECK(truth)                                                                           \
  do {                                                                                         \
    at_line = LINE(__LINE__);                                                                  \
    if (!(truth)) fail(#truth, 0, "true");                                                     \
  } while (0)

static void fail(const char *what, int is, const char *expected) {
  char text[512] = "";
  tintype_last_error(text, sizeof text, NULL);
  fprintf(stderr, "line %s: %s: %d (%s), not %s; last error: %s\n", at_line, what, is,
          tintype_status_name(is), expected, text);
  exit(1);
}

static void last_error_has(const char *words) {
  char text[512];
  size_t length = 0;
  IS(tintype_last_error(text, sizeof text, &length), TINTYPE_STATUS_OK);
  CHECK(length == strlen(text));
  if (!strstr(text, words)) fail(text, 0, words);
}

static void count_free(void *object) { ++*(int *)object; }

static tintype_handle load(const char *path, const char *device) {
  tintype_load_options options;
  tintype_handle request = 0;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.path = tintype_text_of(path);
  options.device = tintype_text_of(device);
  IS(tintype_image_model_load(&options, &request), TINTYPE_STATUS_OK);
  return request;
}

static tintype_image_request asking(const char *prompt) {
  tintype_image_request asked;
  memset(&asked, 0, sizeof asked);
  asked.struct_size = sizeof asked;
  asked.prompt = tintype_text_of(prompt);
  asked.steps = 4;
  asked.seed = 7;
  return asked;
}

// Every function that takes a handle, with one that is not good.
static void refuses(tintype_handle handle, tintype_status expected, int as_model) {
  tintype_image_request asked = asking("x");
  tintype_model_info model_info;
  tintype_image_info image_info;
  tintype_progress reports[2];
  tintype_handle made = 0;
  uint64_t cursor = 0;
  uint8_t byte;
  char letter;
  size_t length;
  model_info.struct_size = sizeof model_info;
  image_info.struct_size = sizeof image_info;
  if (as_model) {
    IS(tintype_image_generate(handle, &asked, &made), expected);
    IS(tintype_image_model_info(handle, &model_info), expected);
  }
  if (as_model != 1) {
    IS(tintype_request_status(handle), expected);
    IS(tintype_request_wait(handle, 0), expected);
    IS(tintype_request_progress(handle, &cursor, reports, 2, &length), expected);
    IS(tintype_request_log(handle, &cursor, &letter, 1, &length), expected);
    IS(tintype_request_error(handle, &letter, 1, &length), expected);
    IS(tintype_request_take_model(handle, &made), expected);
    IS(tintype_request_image_info(handle, 0, &image_info), expected);
    IS(tintype_request_image_pixels(handle, 0, &byte, 1, &length), expected);
    IS(tintype_request_image_png(handle, 0, &byte, 1, &length), expected);
    IS(tintype_request_image_save(handle, 0, tintype_text_of("x.png")), expected);
  }
}

static void exit_functions(void) {
  int freed = 0;
  size_t before = tintype_exit_tracked_count();
  IS(tintype_exit_track(NULL, count_free, 0), TINTYPE_STATUS_NULL);
  IS(tintype_exit_track(&freed, NULL, 0), TINTYPE_STATUS_NULL);
  IS(tintype_exit_track(&freed, count_free, 3), TINTYPE_STATUS_INVALID_ARGUMENT);
  IS(tintype_exit_track(&freed, count_free, 1), TINTYPE_STATUS_OK);
  IS(tintype_exit_track(&freed, count_free, 2), TINTYPE_STATUS_OK);
  CHECK(tintype_exit_tracked_count() == before + 1);
  CHECK(tintype_exit_untrack(&freed));
  CHECK(!tintype_exit_untrack(&freed));
  CHECK(!tintype_exit_untrack(NULL));
  IS(tintype_exit_free(&freed), TINTYPE_STATUS_NOT_TRACKED);
  IS(tintype_exit_track(&freed, count_free, 0), TINTYPE_STATUS_OK);
  IS(tintype_exit_free(&freed), TINTYPE_STATUS_OK);
  IS(tintype_exit_free(&freed), TINTYPE_STATUS_NOT_TRACKED);
  CHECK(freed == 1);
  IS(tintype_exit_call_end(), TINTYPE_STATUS_NO_CALL);
  IS(tintype_exit_call_begin(true), TINTYPE_STATUS_OK);
  IS(tintype_exit_call_begin(false), TINTYPE_STATUS_OK);
  IS(tintype_exit_call_end(), TINTYPE_STATUS_OK);
  IS(tintype_exit_call_end(), TINTYPE_STATUS_OK);
  IS(tintype_exit_call_end(), TINTYPE_STATUS_NO_CALL);
  IS(tintype_exit_set_waits(-1, 2000), TINTYPE_STATUS_OK);
  IS(tintype_exit_set_waits(15000, 2000), TINTYPE_STATUS_OK);
  IS(tintype_exit_after_driver_load(), TINTYPE_STATUS_OK);
}

static void devices(void) {
  size_t count = 0, at, defaults = 0, cpus = 0;
  tintype_device_info *all;
  IS(tintype_devices(NULL, 0, NULL), TINTYPE_STATUS_NULL);
  IS(tintype_devices(NULL, 0, &count), TINTYPE_STATUS_OK);
  CHECK(count >= 1);
  IS(tintype_devices(NULL, 1, &count), TINTYPE_STATUS_NULL);
  all = (tintype_device_info *)calloc(count, sizeof *all);
  IS(tintype_devices(all, count, &count), TINTYPE_STATUS_INVALID_ARGUMENT);
  last_error_has("struct_size is 0");
  all[0].struct_size = sizeof *all;
  IS(tintype_devices(all, count, &count), TINTYPE_STATUS_OK);
  for (at = 0; at < count; ++at) {
    CHECK(all[at].memory_total >= all[at].memory_free && all[at].memory_total > 0);
    CHECK(all[at].name[0] && all[at].selector[0]);
    defaults += all[at].is_default;
    cpus += all[at].kind == 3;
  }
  CHECK(defaults == 1 && cpus == 1);
  free(all);
}

static void bad_loads(void) {
  tintype_load_options options;
  tintype_handle request = 0;
  char text[512];
  size_t length;
  memset(&options, 0, sizeof options);
  IS(tintype_image_model_load(NULL, &request), TINTYPE_STATUS_NULL);
  IS(tintype_image_model_load(&options, &request), TINTYPE_STATUS_INVALID_ARGUMENT);
  options.struct_size = sizeof options;
  IS(tintype_image_model_load(&options, NULL), TINTYPE_STATUS_NULL);
  options.path.data = "\xff";
  options.path.length = 1;
  IS(tintype_image_model_load(&options, &request), TINTYPE_STATUS_INVALID_ARGUMENT);
  last_error_has("path: not UTF-8 from byte 0 on");
  options.path.data = NULL;
  IS(tintype_image_model_load(&options, &request), TINTYPE_STATUS_NULL);

  request = load("/no/such/model.gguf", NULL);
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_IO);
  IS(tintype_request_error(request, NULL, 0, &length), TINTYPE_STATUS_OK);
  IS(tintype_request_error(request, text, length, &length), TINTYPE_STATUS_BUFFER_TOO_SMALL);
  IS(tintype_request_error(request, text, length + 1, &length), TINTYPE_STATUS_OK);
  CHECK(strstr(text, "/no/such/model.gguf") && strlen(text) == length);
  IS(tintype_free(request), TINTYPE_STATUS_OK);
  request = load(NULL, "no such device");
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_DEVICE);
  last_error_has("no such device");
  tintype_finalize((void *)(size_t)request);
  IS(tintype_free(request), TINTYPE_STATUS_FREED);
}

static void pictures(tintype_handle model) {
  tintype_image_request asked = asking("a red apple");
  tintype_image_info info;
  tintype_progress reports[64];
  tintype_handle request = 0, wrong = 0;
  uint64_t cursor = 0, line = 0, seen = 0;
  size_t count = 0, length = 0;
  uint8_t *pixels, png[8];
  char text[512];
  FILE *file;
  info.struct_size = sizeof info;

  IS(tintype_image_generate(model, NULL, &request), TINTYPE_STATUS_NULL);
  asked.batch = 2;
  asked.guidance = 0.5f;
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_INVALID_ARGUMENT);
  last_error_has("1 (off) to 100");
  asked.guidance = 0;
  asked.sampler = tintype_text_of("no such sampler");
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_INVALID_ARGUMENT);
  asked.sampler = tintype_text_of(NULL);
  asked.strength = 0.5f;
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_INVALID_ARGUMENT);
  asked.strength = 0;
  asked.init_width = 128;
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_NULL);
  asked.init_width = 0;
  IS(tintype_image_generate(model, &asked, NULL), TINTYPE_STATUS_NULL);

  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_OK);
  IS(tintype_request_status(request), TINTYPE_STATUS_OK);
  do {
    size_t at;
    IS(tintype_request_progress(request, &cursor, reports, 3, &count), TINTYPE_STATUS_OK);
    for (at = 0; at < count; ++at) {
      CHECK(reports[at].sequence == ++seen);
      CHECK(reports[at].done <= reports[at].total && reports[at].picture < 2);
    }
  } while (count > 0);
  CHECK(seen >= 10 && cursor == seen);
  IS(tintype_request_log(request, &line, NULL, 0, &length), TINTYPE_STATUS_OK);
  CHECK(line == 0 && length > 0);
  while (tintype_request_log(request, &line, text, sizeof text, &length) == TINTYPE_STATUS_OK)
    CHECK(strlen(text) == length);
  CHECK(line >= 4);
  IS(tintype_request_take_model(request, &wrong), TINTYPE_STATUS_NO_RESULT);

  IS(tintype_request_image_info(request, 2, &info), TINTYPE_STATUS_NO_RESULT);
  IS(tintype_request_image_info(request, 1, &info), TINTYPE_STATUS_OK);
  CHECK(info.seed == 8 && info.channels == 3 && info.pictures == 2);
  IS(tintype_request_image_pixels(request, 1, NULL, 0, &length), TINTYPE_STATUS_OK);
  CHECK(length == (size_t)info.width * info.height * 3);
  pixels = (uint8_t *)malloc(length);
  IS(tintype_request_image_pixels(request, 1, pixels, length - 1, &length),
     TINTYPE_STATUS_BUFFER_TOO_SMALL);
  IS(tintype_request_image_pixels(request, 1, NULL, length, NULL), TINTYPE_STATUS_NULL);
  IS(tintype_request_image_pixels(request, 1, pixels, length, NULL), TINTYPE_STATUS_OK);
  IS(tintype_request_image_save(request, 0, tintype_text_of("/no/such/folder/x.png")),
     TINTYPE_STATUS_IO);
  IS(tintype_request_image_save(request, 0, tintype_text_of(NULL)), TINTYPE_STATUS_NULL);
  IS(tintype_request_image_save(request, 1, tintype_text_of("abi.png")), TINTYPE_STATUS_OK);
  file = fopen("abi.png", "rb");
  CHECK(file && fread(png, 1, 8, file) == 8 && !memcmp(png, "\x89PNG\r\n\x1a\n", 8));
  fclose(file);

  // The second picture again, from itself: it is the same only where nothing is drawn anew.
  asked.batch = 0;
  asked.seed = 8;
  asked.init_pixels = asked.mask_pixels = pixels;
  asked.init_width = asked.mask_width = info.width;
  asked.init_height = asked.mask_height = info.height;
  asked.strength = 1;
  IS(tintype_image_generate(model, &asked, &wrong), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(wrong, -1), TINTYPE_STATUS_OK);
  IS(tintype_free(wrong), TINTYPE_STATUS_OK);
  free(pixels);
  IS(tintype_free(request), TINTYPE_STATUS_OK);
  refuses(request, TINTYPE_STATUS_FREED, 0);
  IS(tintype_free(request), TINTYPE_STATUS_FREED);
  IS(tintype_cancel(request), TINTYPE_STATUS_FREED);
}

static void cancels(tintype_handle model) {
  tintype_image_request asked = asking("a boat");
  tintype_handle request = 0, queued = 0;
  asked.steps = 1000;
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_OK);
  IS(tintype_image_generate(model, &asked, &queued), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(request, 20), TINTYPE_STATUS_TIMEOUT);
  IS(tintype_request_status(request), TINTYPE_STATUS_RUNNING);
  IS(tintype_cancel(queued), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(queued, -1), TINTYPE_STATUS_CANCELLED);
  IS(tintype_cancel(request), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_CANCELLED);
  last_error_has("cancelled while");
  IS(tintype_free(request), TINTYPE_STATUS_OK);
  IS(tintype_free(queued), TINTYPE_STATUS_OK);
  // Freed at work, and the model goes on.
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_OK);
  IS(tintype_free(request), TINTYPE_STATUS_OK);
  asked.steps = 1;
  IS(tintype_image_generate(model, &asked, &request), TINTYPE_STATUS_OK);
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_OK);
  IS(tintype_free(request), TINTYPE_STATUS_OK);
}

int main(void) {
  tintype_handle request, model = 0, again = 0;
  tintype_model_info info;
  tintype_teardown ended;
  memset(&info, 0, sizeof info);
  memset(&ended, 0, sizeof ended);
  info.struct_size = sizeof info;
  ended.struct_size = sizeof ended;
  CHECK(tintype_abi_version() == TINTYPE_ABI_VERSION);
  CHECK(strcmp(tintype_version(), VERSION) == 0);
  CHECK(strcmp(tintype_status_name(TINTYPE_STATUS_BUFFER_TOO_SMALL), "buffer too small") == 0);
  CHECK(strcmp(tintype_status_name(1234), "unknown status") == 0);
  refuses(0, TINTYPE_STATUS_NULL, 2);
  refuses(1, TINTYPE_STATUS_FOREIGN, 2);
  refuses(~(uint64_t)0, TINTYPE_STATUS_FOREIGN, 2);
  IS(tintype_free(0), TINTYPE_STATUS_NULL);
  IS(tintype_free(12345), TINTYPE_STATUS_FOREIGN);
  IS(tintype_cancel(12345), TINTYPE_STATUS_FOREIGN);
  tintype_finalize(NULL);
  exit_functions();
  devices();
  bad_loads();

  // A load that nobody waits for, and one whose model nobody takes, leave nothing behind.
  IS(tintype_free(load(NULL, "cpu")), TINTYPE_STATUS_OK);
  request = load(NULL, "cpu");
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_OK);
  IS(tintype_free(request), TINTYPE_STATUS_OK);

  request = load(NULL, "cpu");
  IS(tintype_request_take_model(request, &model), TINTYPE_STATUS_RUNNING);
  IS(tintype_request_wait(request, -1), TINTYPE_STATUS_OK);
  IS(tintype_request_take_model(request, NULL), TINTYPE_STATUS_NULL);
  IS(tintype_request_take_model(request, &model), TINTYPE_STATUS_OK);
  IS(tintype_request_take_model(request, &again), TINTYPE_STATUS_NO_RESULT);
  refuses(request, TINTYPE_STATUS_WRONG_TYPE, 1);
  refuses(model, TINTYPE_STATUS_WRONG_TYPE, 0);
  IS(tintype_free(request), TINTYPE_STATUS_OK);
  IS(tintype_image_model_info(model, &info), TINTYPE_STATUS_OK);
  CHECK(info.width == 128 && info.height == 128 && info.default_steps > 0 && info.name[0]);
  pictures(model);
  cancels(model);
  // The frees above may still wait for their work to end.
  IS(tintype_free(model), TINTYPE_STATUS_OK);
  refuses(model, TINTYPE_STATUS_FREED, 1);
  IS(tintype_free(model), TINTYPE_STATUS_FREED);
  CHECK(tintype_exit_tracked_count() <= 1);
  IS(tintype_exit_teardown(&ended), TINTYPE_STATUS_OK);
  CHECK(ended.left == 0 && ended.in_flight == 0);
  IS(tintype_exit_teardown(NULL), TINTYPE_STATUS_OK);
  IS(tintype_free(model), TINTYPE_STATUS_CLOSED);
  IS(tintype_devices(NULL, 0, NULL), TINTYPE_STATUS_CLOSED);
  puts("all as expected");
  return 0;
}
