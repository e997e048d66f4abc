# The compiled twin of _checksum.py: the CPU's instruction where there is one (8 bytes in 3 cycles), else eight tables.

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #if defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #endif

    static uint32_t odradek_crc_tables[8][256];
    static int odradek_crc_in_hardware = 0;

    static void odradek_crc_prepare(void) {
        uint32_t i, k, c;
        for (i = 0; i < 256; i++) {
            c = i;
            for (k = 0; k < 8; k++) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
            odradek_crc_tables[0][i] = c;
        }
        for (i = 0; i < 256; i++)
            for (k = 1; k < 8; k++)
                odradek_crc_tables[k][i] =
                    (odradek_crc_tables[k - 1][i] >> 8) ^ odradek_crc_tables[0][odradek_crc_tables[k - 1][i] & 0xFF];
    #if defined(__x86_64__) && defined(__GNUC__)
        __builtin_cpu_init();
        odradek_crc_in_hardware = __builtin_cpu_supports("sse4.2") != 0;
    #endif
    }

    static uint32_t odradek_crc_by_table(uint32_t c, const unsigned char *p, size_t n) {
        while (n >= 8) {
            uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            c = odradek_crc_tables[7][low & 0xFF] ^ odradek_crc_tables[6][low >> 8 & 0xFF] ^
                odradek_crc_tables[5][low >> 16 & 0xFF] ^ odradek_crc_tables[4][low >> 24] ^ odradek_crc_tables[3][p[4]] ^
                odradek_crc_tables[2][p[5]] ^ odradek_crc_tables[1][p[6]] ^ odradek_crc_tables[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--) c = c >> 8 ^ odradek_crc_tables[0][(c ^ *p++) & 0xFF];
        return c;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2"))) static uint32_t odradek_crc_by_instruction(uint32_t c, const unsigned char *p, size_t n) {
        uint64_t wide = c, word;
        while (n >= 8) {
            memcpy(&word, p, 8);
            wide = __builtin_ia32_crc32di(wide, word);
            p += 8;
            n -= 8;
        }
        c = (uint32_t)wide;
        while (n--) c = __builtin_ia32_crc32qi(c, *p++);
        return c;
    }
    #endif

    static uint32_t odradek_crc(const unsigned char *p, size_t n) {
    #if defined(__x86_64__) && defined(__GNUC__)
        if (odradek_crc_in_hardware) return ~odradek_crc_by_instruction(~0u, p, n);
    #elif defined(__ARM_FEATURE_CRC32) && defined(__AARCH64EL__)
        uint32_t c = ~0u;
        uint64_t word;
        while (n >= 8) {
            memcpy(&word, p, 8);
            c = __crc32cd(c, word);
            p += 8;
            n -= 8;
        }
        while (n--) c = __crc32cb(c, *p++);
        return ~c;
    #endif
        return ~odradek_crc_by_table(~0u, p, n);
    }
    """
    void prepare "odradek_crc_prepare"()
    unsigned int odradek_crc(const unsigned char* data, size_t size)

cdef inline long long checksum(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    return odradek_crc(data + at, <size_t>size)
