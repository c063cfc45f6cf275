export const report = {
  origin: (version: string, at: string) => `Report of Loadmaster ${version}, written ${at}`,
  notIncluded: "This report was written without that schedule; --with-classic adds it.",
};
