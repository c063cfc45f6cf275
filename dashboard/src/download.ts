/** Save something that was made in the browser as a file. */
export function saveBlob(blob: Blob, fileName: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = fileName;
  link.click();
  // The download has begun by then; the address would otherwise keep the bytes in memory.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveText(text: string, mediaType: string, fileName: string): void {
  saveBlob(new Blob([text], { type: mediaType }), fileName);
}
