#include "pipeline/jpeg/records/transcode.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

// After <cstdio>, which it needs.
#include <jpeglib.h>
// After <jpeglib.h>, which it needs.
#include <jerror.h>

#include <penstock/error.h>

#include "pipeline/codec/codec.h"
#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/turbo/warnings.h"

namespace penstock::jpeg {

namespace {

constexpr int kMarkers = 17;  // APP0 … APP15 and COM
constexpr unsigned kWholeSegment = 0xffff;

int marker_of(int i) noexcept {
  return i < 16 ? JPEG_APP0 + i : JPEG_COM;
}

/// The common part of both directions. All code that may longjmp lies in functions that take one of
/// the structs below, and own nothing that needs a destructor.
struct Failure {
  jpeg_error_mgr errors;
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = {};
  bool scans = false;
};

struct Reader : Failure {
  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { jpeg_destroy_decompress(&info); }

  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress;
  const unsigned char* file = nullptr;
  int max_scans = 0;
  jvirt_barray_ptr* arrays = nullptr;
};

struct Writer : Failure {
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    // libjpeg tells where its memory is only at its end.
    if (memory != nullptr) info.dest->term_destination(&info);
    jpeg_destroy_compress(&info);
    std::free(memory);
  }

  jpeg_compress_struct info{};
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jvirt_barray_ptr arrays[3] = {};
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto& failure = *static_cast<Failure*>(info->client_data);
  (*info->err->format_message)(info, failure.message);
  std::longjmp(failure.failed, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  if (info->is_decompressor == TRUE &&
      image::is_harmless(*reinterpret_cast<j_decompress_ptr>(info),
                         static_cast<Reader*>(static_cast<Failure*>(info->client_data))->file))
    return;
  on_error(info);
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  auto& reader = *static_cast<Reader*>(static_cast<Failure*>(info->client_data));
  if (reader.info.input_scan_number <= reader.max_scans) return;
  reader.scans = true;
  std::longjmp(reader.failed, 1);
}

template <typename Info>
void connect(Failure& failure, Info& info) {
  info.err = jpeg_std_error(&failure.errors);
  failure.errors.error_exit = on_error;
  failure.errors.emit_message = on_message;
  failure.errors.output_message = on_output;
  info.client_data = &failure;
}

bool create(Reader& reader) {
  connect(reader, reader.info);
  if (setjmp(reader.failed) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.progress = {};
  reader.progress.progress_monitor = on_progress;
  reader.info.progress = &reader.progress;
  for (int i = 0; i < kMarkers; ++i) jpeg_save_markers(&reader.info, marker_of(i), kWholeSegment);
  return true;
}

bool create(Writer& writer) {
  connect(writer, writer.info);
  if (setjmp(writer.failed) != 0) return false;
  jpeg_create_compress(&writer.info);
  return true;
}

bool read_header(Reader& reader, std::span<const std::byte> jpeg) {
  if (setjmp(reader.failed) != 0) return false;
  reader.file = reinterpret_cast<const unsigned char*>(jpeg.data());
  jpeg_mem_src(&reader.info, reader.file, static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

bool read_all(Reader& reader) {
  if (setjmp(reader.failed) != 0) return false;
  reader.arrays = jpeg_read_coefficients(&reader.info);
  return true;
}

/// Returns a row of blocks that libjpeg holds, or null if libjpeg fails.
JBLOCKROW row_of(Reader& reader, int component, JDIMENSION row) {
  if (setjmp(reader.failed) != 0) return nullptr;
  return reader.info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&reader.info),
                                             reader.arrays[component], row, 1, FALSE)[0];
}

/// Returns the bytes of all coefficients.
std::uint64_t coefficient_bytes(const jpeg_decompress_struct& info) {
  std::uint64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i)
    blocks += std::uint64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks;
  return blocks * sizeof(JBLOCK);
}

bool finish(Reader& reader) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_finish_decompress(&reader.info);
  return true;
}

/// True if the file never gave some coefficients in full: the library would smooth across blocks.
bool incomplete(const jpeg_decompress_struct& info) {
  if (info.progressive_mode == FALSE || info.coef_bits == nullptr) return false;
  for (int i = 0; i < info.num_components; ++i)
    for (int k = 0; k < DCTSIZE2; ++k)
      if (info.coef_bits[i][k] != 0) return true;
  return false;
}

/// Describes the JPEG as the library sees it, as far as its pixels depend on it.
Foreign describe(const jpeg_decompress_struct& info, Header& header) {
  header = {};
  if (info.data_precision != 8) return Foreign::precision;
  if (info.num_components != 1 && info.num_components != 3) return Foreign::components;
  header.width = static_cast<int>(info.image_width);
  header.height = static_cast<int>(info.image_height);
  header.component_count = info.num_components;
  header.max_horizontal = info.max_h_samp_factor;
  header.max_vertical = info.max_v_samp_factor;
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      header.color = ColorModel::gray;
      break;
    case JCS_YCbCr:
      header.color = ColorModel::ycc;
      break;
    case JCS_RGB:
      header.color = ColorModel::rgb;
      break;
    default:
      return Foreign::color;
  }
  if ((header.color == ColorModel::gray) != (info.num_components == 1)) return Foreign::color;
  int blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& from = info.comp_info[i];
    Component& component = header.components[static_cast<std::size_t>(i)];
    component = {from.component_id, from.h_samp_factor, from.v_samp_factor, i, 0, 0};
    blocks += from.h_samp_factor * from.v_samp_factor;
  }
  return header.component_count == 3 && blocks > kMaxBlocksInMcu ? Foreign::sampling
                                                                 : Foreign::none;
}

std::vector<std::byte> metadata_of(const jpeg_decompress_struct& info) {
  std::vector<std::byte> metadata;
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const unsigned size = marker->data_length + 2;
    for (const unsigned byte : {0xffU, unsigned{marker->marker}, size >> 8, size & 255U})
      metadata.push_back(static_cast<std::byte>(byte));
    const auto* data = reinterpret_cast<const std::byte*>(marker->data);
    metadata.insert(metadata.end(), data, data + marker->data_length);
  }
  return metadata;
}

void set_tables(jpeg_compress_struct& info, const SharedTables& tables) {
  const auto set = [&info](JHUFF_TBL*& table, const HuffmanSpec& spec) {
    if (table == nullptr) table = jpeg_alloc_huff_table(reinterpret_cast<j_common_ptr>(&info));
    table->bits[0] = 0;
    std::copy(spec.counts.begin(), spec.counts.end(), table->bits + 1);
    std::copy(spec.symbols.begin(), spec.symbols.end(), table->huffval);
    table->sent_table = FALSE;
  };
  for (std::size_t i = 0; i < 2; ++i) {
    set(info.dc_huff_tbl_ptrs[i], tables.dc[i]);
    set(info.ac_huff_tbl_ptrs[i], tables.ac[i]);
  }
}

bool set_up(Writer& writer, const CoefficientImage& image, const WriteOptions& options) {
  if (setjmp(writer.failed) != 0) return false;
  const Header& header = image.header;
  jpeg_compress_struct& info = writer.info;
  jpeg_mem_dest(&info, &writer.memory, &writer.size);
  info.image_width = static_cast<JDIMENSION>(header.width);
  info.image_height = static_cast<JDIMENSION>(header.height);
  info.input_components = header.component_count;
  info.in_color_space = header.component_count == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, header.color == ColorModel::rgb    ? JCS_RGB
                             : header.color == ColorModel::gray ? JCS_GRAYSCALE
                                                                : JCS_YCbCr);
  // The image's own JFIF and Adobe markers are among its metadata.
  info.write_JFIF_header = FALSE;
  info.write_Adobe_marker = FALSE;
  info.optimize_coding = options.tables == nullptr ? TRUE : FALSE;
  if (options.tables != nullptr) set_tables(info, *options.tables);
  info.restart_interval = static_cast<unsigned>(options.restart_interval);
  const BlockGrid grid(header);
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& from = header.components[place];
    jpeg_component_info& component = info.comp_info[i];
    component.component_id = from.id;
    component.h_samp_factor = from.horizontal;
    component.v_samp_factor = from.vertical;
    component.quant_tbl_no = i;
    if (info.quant_tbl_ptrs[i] == nullptr)
      info.quant_tbl_ptrs[i] = jpeg_alloc_quant_table(reinterpret_cast<j_common_ptr>(&info));
    const Quantisation& table = header.quantisation[static_cast<std::size_t>(from.quantisation)];
    std::copy(table.values.begin(), table.values.end(), info.quant_tbl_ptrs[i]->quantval);
    info.quant_tbl_ptrs[i]->sent_table = FALSE;
    const auto up = [](int value, int factor) {
      return static_cast<JDIMENSION>((value + factor - 1) / factor * factor);
    };
    writer.arrays[i] = info.mem->request_virt_barray(
        reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, TRUE,
        up(grid.across[place], from.horizontal), up(grid.down[place], from.vertical),
        static_cast<JDIMENSION>(from.vertical));
  }
  jpeg_write_coefficients(&info, writer.arrays);
  return true;
}

JBLOCKROW row_of(Writer& writer, int component, JDIMENSION row) {
  if (setjmp(writer.failed) != 0) return nullptr;
  return writer.info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&writer.info),
                                             writer.arrays[component], row, 1, TRUE)[0];
}

bool write_segment(Writer& writer, int marker, std::span<const std::byte> data) {
  if (setjmp(writer.failed) != 0) return false;
  jpeg_write_marker(&writer.info, marker, reinterpret_cast<const JOCTET*>(data.data()),
                    static_cast<unsigned>(data.size()));
  return true;
}

bool finish(Writer& writer) {
  if (setjmp(writer.failed) != 0) return false;
  jpeg_finish_compress(&writer.info);
  return true;
}

}  // namespace

Foreign read_coefficients(std::span<const std::byte> jpeg, const Limits& limits,
                          CoefficientImage& image, TakenBytes* taken) {
  Reader reader;
  const auto require = [&](bool ok) {
    if (ok) return;
    throw Error(ErrorCode::data_loss,
                reader.scans ? "JPEG: more than " + std::to_string(reader.max_scans) + " scans"
                             : std::string("JPEG: ") + reader.message);
  };
  require(create(reader));
  reader.max_scans = limits.max_scans;
  constexpr std::uint64_t kMost = std::numeric_limits<long>::max();
  reader.info.mem->max_memory_to_use =
      static_cast<long>(std::min<std::uint64_t>(limits.max_codec_bytes, kMost));
  require(read_header(reader, jpeg));
  image::check_pixels(reader.info.image_width, reader.info.image_height, limits);
  const Foreign foreign = describe(reader.info, image.header);
  const std::uint64_t bytes = coefficient_bytes(reader.info);
  // The library refuses more than the limit.
  if (taken != nullptr && bytes <= limits.max_codec_bytes) taken->take(2 * bytes);
  const bool read = read_all(reader);
  // A whole image of coefficients takes more memory than decoding it does.
  if (!read && !reader.scans && reader.errors.msg_code == JERR_NO_BACKING_STORE)
    return Foreign::memory;
  require(read);
  if (foreign != Foreign::none) return foreign;
  if (incomplete(reader.info)) return Foreign::progressive;
  const BlockGrid grid(image.header);
  for (int i = 0; i < image.header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const JQUANT_TBL* table = reader.info.comp_info[i].quant_table;
    if (table == nullptr) return Foreign::tables;
    Quantisation& quantisation = image.header.quantisation[place];
    std::copy(std::begin(table->quantval), std::end(table->quantval), quantisation.values.begin());
    quantisation.given = true;
    const std::size_t row_values = static_cast<std::size_t>(grid.across[place]) * kBlockSize;
    std::vector<std::int16_t>& blocks = image.blocks[place];
    blocks.resize(row_values * static_cast<std::size_t>(grid.down[place]));
    for (int y = 0; y < grid.down[place]; ++y) {
      const JBLOCKROW row = row_of(reader, i, static_cast<JDIMENSION>(y));
      require(row != nullptr);
      std::memcpy(blocks.data() + row_values * static_cast<std::size_t>(y), row,
                  row_values * sizeof(std::int16_t));
    }
  }
  image.metadata = metadata_of(reader.info);
  require(finish(reader));
  image.file_bytes = jpeg.size() - reader.info.src->bytes_in_buffer;
  if (taken != nullptr) taken->give(bytes);
  return Foreign::none;
}

std::vector<std::byte> write_jpeg(const CoefficientImage& image, const WriteOptions& options) {
  Writer writer;
  const auto require = [&](bool ok) {
    if (!ok) throw Error(ErrorCode::out_of_range, std::string("JPEG: ") + writer.message);
  };
  require(create(writer));
  require(set_up(writer, image, options));
  std::span<const std::byte> metadata = image.metadata;
  while (metadata.size() >= 4) {
    const auto size =
        std::to_integer<std::size_t>(metadata[2]) << 8 | std::to_integer<std::size_t>(metadata[3]);
    if (size < 2 || size > metadata.size() - 2) break;
    require(
        write_segment(writer, std::to_integer<int>(metadata[1]), metadata.subspan(4, size - 2)));
    metadata = metadata.subspan(size + 2);
  }
  const BlockGrid grid(image.header);
  for (int i = 0; i < image.header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const std::size_t row_values = static_cast<std::size_t>(grid.across[place]) * kBlockSize;
    for (int y = 0; y < grid.down[place]; ++y) {
      const JBLOCKROW row = row_of(writer, i, static_cast<JDIMENSION>(y));
      require(row != nullptr);
      std::memcpy(row, image.blocks[place].data() + row_values * static_cast<std::size_t>(y),
                  row_values * sizeof(std::int16_t));
    }
  }
  require(finish(writer));
  const auto* bytes = reinterpret_cast<const std::byte*>(writer.memory);
  return {bytes, bytes + writer.size};
}

}  // namespace penstock::jpeg
